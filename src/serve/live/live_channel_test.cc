#include "serve/live/live_channel.h"

#include <gtest/gtest.h>

#include <thread>

#include "serve/live/engine_turn.h"

namespace zt {
namespace {

using namespace std::chrono_literals;

Fragment fragment(char byte) {
  Fragment f;
  f.frames = kLiveGroup, f.bytes = std::string(8, byte);
  return f;
}

LiveSettings settings() {
  LiveSettings s;
  s.id = "live_0123456789abcdef0123456789abcdef", s.prompt = "a red circle bounces", s.lead_seconds = 2;
  return s;
}

TEST(LiveChannel, BuildsItsLeadAndHoldsItWithoutViewers) {
  LiveChannel c(settings());
  int made = 0;
  for (; c.wants_more() && made < 100; ++made) c.add(fragment('a'));
  EXPECT_EQ(made, 3);   // 3 * 17 / 24 = 2.125 s
  EXPECT_EQ(c.resource()["status"], "waiting");
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(c.wants_more());
  EXPECT_NEAR(c.lead(), 2.125, 1e-9);
}

TEST(LiveChannel, PlaysWhileWatchedAndCountsAStall) {
  LiveChannel c(settings());
  c.add(fragment('a'));
  c.join();
  EXPECT_EQ(c.resource()["status"], "playing");
  std::this_thread::sleep_for(300ms);
  const double lead = c.lead();
  EXPECT_LT(lead, 17.0 / 24 - 0.25);
  EXPECT_TRUE(c.wants_more());
  std::this_thread::sleep_for(600ms);   // past its end
  EXPECT_EQ(c.lead(), 0);
  EXPECT_EQ(c.resource()["stalls"], 1);
  c.add(fragment('b'));
  EXPECT_NEAR(c.lead(), 17.0 / 24, 0.05);
}

TEST(LiveChannel, KeepsTheNearPastAndSaysWhatIsLost) {
  LiveSettings s = settings();
  s.lead_seconds = 60;
  LiveChannel c(s);
  for (int i = 0; i < 10; ++i) c.add(fragment(static_cast<char>('a' + i)));
  EXPECT_EQ(c.live_edge(), 0);
  ASSERT_TRUE(c.piece(9).fragment);
  EXPECT_EQ(c.piece(9).fragment->bytes[0], 'j');
  EXPECT_FALSE(c.piece(10).fragment);
  EXPECT_FALSE(c.piece(10).lost);
  LiveChannel late(s);
  late.start_at(30);
  late.add(fragment('z'));
  EXPECT_TRUE(late.piece(29).lost);
  EXPECT_TRUE(late.piece(30).fragment);
  EXPECT_EQ(late.live_edge(), 30);
}

TEST(LiveChannel, ItsPlaylistHasPartsAndNamesTheNext) {
  LiveSettings s = settings();
  s.lead_seconds = 60;
  LiveChannel c(s);
  c.start_at(30);
  for (int i = 0; i < 4; ++i) c.add(fragment('a'));
  auto has = [&](const std::string& text) { return c.playlist().find(text) != std::string::npos; };
  EXPECT_TRUE(has("#EXT-X-MEDIA-SEQUENCE:10\n#EXT-X-DISCONTINUITY-SEQUENCE:10\n"));
  EXPECT_TRUE(has("n=10&part=2\",INDEPENDENT=YES\n#EXTINF:2.12500,\nsegment.m4s?n=10\n#EXT-X-PART:DURATION=0.70833,URI=\"segment.m4s?n=11&part=0\",INDEPENDENT=YES\n"
                  "#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"segment.m4s?n=11&part=1\"\n"));
  EXPECT_EQ(c.edge().end, 34);
  for (int i = 0; i < 5; ++i) c.add(fragment('b'));   // segment 10 ends 4.25 s before the end now
  EXPECT_TRUE(has("n=10&part=0"));
  for (int i = 0; i < 3; ++i) c.add(fragment('c'));   // 6.375 s: more than three target durations
  EXPECT_FALSE(has("n=10&part="));
  EXPECT_TRUE(has("\nsegment.m4s?n=10\n"));
  EXPECT_TRUE(has("segment.m4s?n=13\n#EXT-X-PRELOAD-HINT:TYPE=PART,URI=\"segment.m4s?n=14&part=0\"\n"));
  c.add(fragment('d'));
  c.stop();
  EXPECT_FALSE(has("PART") || has("SERVER-CONTROL"));
  EXPECT_TRUE(has("#EXTINF:0.70833,\nsegment.m4s?n=14\n#EXT-X-ENDLIST\n"));
}

TEST(LiveChannel, WhatWaitsIsLeadAndNotToBePlayed) {
  LiveSettings s = settings();
  s.lead_seconds = 6;
  LiveChannel c(s);
  EXPECT_TRUE(c.wants_decoded());
  c.add(fragment('a')), c.add(fragment('b')), c.add(fragment('c'));
  EXPECT_FALSE(c.wants_decoded());
  EXPECT_TRUE(c.wants_more());
  c.waits(2);
  EXPECT_FALSE(c.wants_more());
  EXPECT_NEAR(c.lead(), 9 * kFragmentSeconds, 1e-9);
  EXPECT_NEAR(c.resource()["ready_seconds"].get<double>(), 2.125, 1e-3);
  EXPECT_FALSE(c.piece(3).fragment);
  EXPECT_FALSE(c.takes_change());
  c.change("a red circle bounces", {}, {});   // the same
  EXPECT_FALSE(c.takes_change());
  c.change("a blue square grows", {}, {});
  EXPECT_TRUE(c.takes_change());
  EXPECT_FALSE(c.takes_change());
}

TEST(LiveChannel, GoesDownARungWhenItCannotKeepUp) {
  LiveChannel c(settings());
  c.add(fragment('a'));
  c.join();
  EXPECT_EQ(c.evaluations(), 8);
  Result r;
  c.made(r, 3.0, 1);   // seconds for 2.125 of them, and the lead is short
  EXPECT_EQ(c.evaluations(), 6);
  c.made(r, 3.0, 2);
  EXPECT_EQ(c.evaluations(), 4);
  c.made(r, 3.0, 3), c.made(r, 3.0, 4);
  EXPECT_EQ(c.evaluations(), 2);
  EXPECT_EQ(c.resource()["rung"], 3);
  for (int i = 0; i < 4; ++i) c.add(fragment('b'));
  for (int i = 0; i < 5; ++i) c.made(r, 0.1, 5 + i);
  EXPECT_EQ(c.evaluations(), 4);
}

TEST(LiveChannel, SettingsSurviveTheirFile) {
  LiveSettings s = settings();
  s.seed = ~uint64_t{0}, s.width = 64, s.height = 32, s.paused = true, s.lora = {"ink:0.5", "turbo"};
  const LiveSettings back = live_settings(Json::parse(to_json(s).dump()));
  EXPECT_EQ(to_json(back), to_json(s));
  EXPECT_EQ(back.seed, s.seed);
  EXPECT_EQ(back.lora, s.lora);
  Json older = to_json(s);
  older.erase("lora");
  EXPECT_TRUE(live_settings(older).lora.empty());
  older["lora"] = 3;
  EXPECT_THROW(live_settings(older), Error);
  EXPECT_THROW(live_settings(Json::parse("{\"id\": 3}")), Error);
}

TEST(EngineTurn, IsInOrderAndPassesBetweenSteps) {
  EngineTurn turn;
  std::string order;
  turn.take();
  std::thread other([&] {
    const EngineTurn::Hold hold(turn);
    order += "b";
  });
  while (true) {   // until the other waits
    turn.pass();
    if (!order.empty()) break;
    std::this_thread::sleep_for(1ms);
  }
  order += "a";
  turn.give();
  other.join();
  EXPECT_EQ(order, "ba");
}

}  // namespace
}  // namespace zt
