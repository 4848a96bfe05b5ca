// The worker on the tiny checkpoint of tests/golden/a: every way a job can end, and that no interruption changes a byte of its files.
#include "serve/worker.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "media/decode.h"
#include "serve/job.h"
#include "serve/store/test_servers.h"
#include "serve/worker_files.h"

namespace zt {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

const std::string kModel = std::string(ZT_SOURCE_DIR) + "/tests/golden/a/model";

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Workers : public testing::Test {
 protected:
  Workers() : place_(StoreKind::sqlite), data_(place_.folder()), store_(open_store(place_.url())) {
    options_.data = data_, options_.poll_ms = 100, options_.heartbeat_ms = 50;
  }
  ~Workers() override { end(); }

  static Engine& engine() {
    static Engine one(kModel, exact_plan(), 2);
    return one;
  }
  void begin() {
    stop_ = false;
    thread_ = std::thread([this] { run_worker(*store_, engine(), options_, stop_); });
  }
  void end() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  NewJob job(int64_t evaluations, int priority = kInteractivePriority) {
    NewJob n;
    n.id = new_job_id();
    n.priority = priority;
    n.options = Json{{"prompt", "a red kite"}, {"size", "32x32"}, {"frames", 124}, {"evaluations", evaluations}, {"seed", 3}}.dump();
    return n;
  }
  std::string add(int64_t evaluations, int priority = kInteractivePriority) { return store_->create(job(evaluations, priority)).job.id; }
  Job wait(const std::string& id, const std::function<bool(const Job&)>& until) {
    for (int i = 0; i < 6000; ++i) {
      if (const auto j = store_->get(id); j && until(*j)) return *j;
      std::this_thread::sleep_for(10ms);
    }
    ADD_FAILURE() << "waited in vain for " << id;
    return store_->get(id).value_or(Job{});
  }
  Job ended(const std::string& id) { return wait(id, [](const Job& j) { return j.ended_ms > 0; }); }
  Job running(const std::string& id, int64_t step) { return wait(id, [&](const Job& j) { return j.checkpoint_step >= step; }); }
  std::string video(const Job& j) { return read_bytes(data_ + "/" + parse_json(j.result, "result")["files"]["video"]["path"].get<std::string>()); }
  // What an undisturbed run of that many evaluations gives.
  std::string undisturbed(int64_t evaluations) {
    const std::string path = data_ + "/undisturbed.mp4";
    GenerateOptions o;
    fill_from_json(parse_json(job(evaluations).options, "options"), o);
    run_request(engine(), o, build_request(o, engine().index()), model_hash(kModel), path, {});
    return read_bytes(path);
  }

  StorePlace place_;
  std::string data_;
  std::unique_ptr<JobStore> store_;
  WorkerOptions options_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST_F(Workers, ARunningJobHasAPicture) {
  const std::string id = add(300), path = data_ + "/" + job_folder(id) + "/preview.png";
  begin();
  running(id, 1);
  for (int i = 0; i < 1000 && !fs::exists(path); ++i) std::this_thread::sleep_for(5ms);
  const Picture seen = load_picture(path);
  EXPECT_EQ(seen.width, 32);
  EXPECT_EQ(seen.height, 32);
  store_->request_cancel(id);
  ended(id);
  end();
  EXPECT_TRUE(fs::exists(path)) << "whoever was told of it fetches it a moment later";
  sweep_data_folder(*store_, *open_results("", data_), data_);
  EXPECT_TRUE(fs::exists(path));
  fs::last_write_time(data_ + "/" + job_folder(id), fs::file_time_type::clock::now() - 2h);
  sweep_data_folder(*store_, *open_results("", data_), data_);
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(Workers, AJobBecomesFiles) {
  const std::string id = add(2);
  begin();
  const Job j = ended(id);
  ASSERT_EQ(j.status, JobStatus::completed) << j.error_message;
  const Json result = parse_json(j.result, "result");
  EXPECT_EQ(result["frames"], 124);
  EXPECT_EQ(result["evaluations"], 2);
  EXPECT_EQ(result["width"], 32);
  for (const char* name : {"video", "thumbnail", "spritesheet"}) {
    const Json f = result["files"][name];
    const std::string path = data_ + "/" + f["path"].get<std::string>();
    EXPECT_EQ(fs::file_size(path), f["bytes"].get<uintmax_t>());
    EXPECT_EQ(f["sha256"].get<std::string>().size(), 64u);
  }
  EXPECT_EQ(load_picture(data_ + "/" + result["files"]["spritesheet"]["path"].get<std::string>()).width, 4 * 32);
  EXPECT_EQ(video(j), undisturbed(2));
  EXPECT_EQ(j.percent, 100);
  end();
  EXPECT_FALSE(fs::exists(data_ + "/" + job_folder(id) + "/checkpoint"));
  EXPECT_TRUE(store_->check().empty());
}

TEST_F(Workers, ASavedStateGoesOnToTheSameBytes) {
  constexpr int64_t kEvaluations = 5;
  const std::string whole = undisturbed(kEvaluations), path = data_ + "/resumed.mp4", kept = data_ + "/kept";
  GenerateOptions o;
  fill_from_json(parse_json(job(kEvaluations).options, "options"), o);
  for (int64_t at = 1; at <= kEvaluations; ++at) {
    Hooks hooks;
    hooks.step_done = [&](const DenoiseState& s) {
      if (s.evaluations != at) return;
      write_checkpoint(kept, "x", s);
      throw Cancelled();
    };
    EXPECT_THROW(run_request(engine(), o, build_request(o, engine().index()), "h", path, hooks), Cancelled);
    EXPECT_FALSE(fs::exists(path));
    const auto saved = read_checkpoint(kept, "x");
    ASSERT_TRUE(saved);
    const DenoiseState state = saved->state();
    EXPECT_EQ(state.evaluations, at);
    hooks = {};
    hooks.resume = &state;
    int64_t steps = 0;
    hooks.step_done = [&](const DenoiseState&) { ++steps; };
    run_request(engine(), o, build_request(o, engine().index()), model_hash(kModel), path, hooks);
    EXPECT_EQ(steps, kEvaluations - at);
    EXPECT_EQ(read_bytes(path), whole) << "after evaluation " << at;
    fs::remove(path);
  }
}

TEST_F(Workers, AStateOfAnotherRequestIsRefused) {
  GenerateOptions o;
  fill_from_json(parse_json(job(2).options, "options"), o);
  const Checkpoint c{Tensor({3, 4}), Tensor({2, 2}), 1};
  const DenoiseState state = c.state();
  Hooks hooks;
  hooks.resume = &state;
  EXPECT_THROW(run_request(engine(), o, build_request(o, engine().index()), "h", data_ + "/x.mp4", hooks), Error);
}

TEST_F(Workers, ACheckpointThatIsDamagedOrForeignIsNone) {
  const std::string path = data_ + "/c";
  Checkpoint c{Tensor({3, 4}), Tensor({2, 2}), 7};
  for (int i = 0; i < 12; ++i) c.video_rows.data()[i] = static_cast<float>(i);
  for (int i = 0; i < 4; ++i) c.audio_rows.data()[i] = static_cast<float>(-i);
  write_checkpoint(path, "a", c.state());
  const auto back = read_checkpoint(path, "a");
  ASSERT_TRUE(back);
  EXPECT_EQ(back->evaluations, 7);
  EXPECT_EQ(back->video_rows.data()[11], 11);
  EXPECT_EQ(back->audio_rows.data()[3], -3);
  EXPECT_FALSE(read_checkpoint(path, "b"));
  EXPECT_FALSE(read_checkpoint(path + "none", "a"));
  const Latents latents{Tensor({2, 7, 2, 3}), Tensor({2, 3, 5})};
  latents.video.data()[83] = 5;
  write_segment(path, "a", 4, latents);
  const auto segment = read_segment(path, "a", 4);
  ASSERT_TRUE(segment);
  EXPECT_EQ(segment->video.shape(), latents.video.shape());
  EXPECT_EQ(segment->sound.shape(), latents.sound.shape());
  EXPECT_EQ(segment->video.data()[83], 5);
  EXPECT_FALSE(read_segment(path, "a", 3));
  EXPECT_FALSE(read_segment(path, "b", 4));
  EXPECT_FALSE(read_checkpoint(path, "a"));
  write_checkpoint(path, "a", c.state());
  const std::string bytes = read_bytes(path);
  for (size_t cut = 0; cut < bytes.size(); cut += 7) {
    std::ofstream(path, std::ios::binary) << bytes.substr(0, cut);
    EXPECT_FALSE(read_checkpoint(path, "a")) << cut;
  }
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string bad = bytes;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    std::ofstream(path, std::ios::binary) << bad;
    EXPECT_FALSE(read_checkpoint(path, "a")) << at;
  }
}

TEST_F(Workers, StoppingGivesTheJobBackAndAnotherGoesOn) {
  const std::string id = add(60);
  begin();
  running(id, 5);
  end();
  const Job j = *store_->get(id);
  EXPECT_EQ(j.status, JobStatus::queued);
  EXPECT_GE(j.checkpoint_step, 5);
  EXPECT_TRUE(fs::exists(data_ + "/" + j.checkpoint));
  begin();
  const Job done = ended(id);
  ASSERT_EQ(done.status, JobStatus::completed) << done.error_message;
  EXPECT_EQ(video(done), undisturbed(60));
}

TEST_F(Workers, CancelStopsARunAndLeavesNothing) {
  const std::string id = add(1000);
  begin();
  running(id, 1);
  const auto asked = std::chrono::steady_clock::now();
  store_->request_cancel(id);
  EXPECT_EQ(ended(id).status, JobStatus::cancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - asked, 3s);
  const std::string next = add(2);   // and the engine is as it was
  const Job done = ended(next);
  ASSERT_EQ(done.status, JobStatus::completed) << done.error_message;
  end();
  EXPECT_EQ(video(done), undisturbed(2));
  for (const auto& e : fs::directory_iterator(data_ + "/" + job_folder(id)))
    if (e.path().filename() != "preview.png") ADD_FAILURE() << e.path();
}

TEST_F(Workers, ADeletionWinsOverTheRun) {
  const std::string id = add(1000);
  begin();
  running(id, 1);
  store_->erase(id);
  std::error_code still_written;   // the run may lay a file into the folder while it goes; the worker clears up after it
  fs::remove_all(data_ + "/" + job_folder(id), still_written);
  EXPECT_EQ(ended(add(2)).status, JobStatus::completed);
  end();
  EXPECT_FALSE(fs::exists(data_ + "/" + job_folder(id)));
  EXPECT_FALSE(store_->get(id));
}

TEST_F(Workers, AnInteractiveJobTakesTheWorkerFromABatchJob) {
  const std::string batch = add(150, kBatchPriority);
  begin();
  running(batch, 3);
  const std::string soon = add(2);
  const Job first = ended(soon);
  EXPECT_EQ(first.status, JobStatus::completed) << first.error_message;
  EXPECT_EQ(store_->get(batch)->ended_ms, 0);
  const Job second = ended(batch);
  ASSERT_EQ(second.status, JobStatus::completed) << second.error_message;
  EXPECT_LE(second.attempt, 1);
  EXPECT_EQ(video(second), undisturbed(150));
}

TEST_F(Workers, ADeadlineEndsARun) {
  NewJob n = job(1000);
  n.deadline_ms = store_->now_ms() + 700;
  const std::string id = store_->create(n).job.id;
  begin();
  const Job j = ended(id);
  EXPECT_EQ(j.status, JobStatus::failed);
  EXPECT_EQ(j.error_code, "deadline_exceeded");
}

TEST_F(Workers, WhatAJobMayNotAskForFailsIt) {
  std::ofstream(data_ + "/secret.png") << "x";
  fs::create_directories(data_ + "/jobs");
  std::vector<std::string> ids;
  for (const char* options : {"{", "[]", R"({"prompt":"a","output":"/tmp/x.mp4"})", R"({"prompt":"a","config":"/etc/passwd"})", R"({"prompt":"a","plan":"fast"})",
                              R"({"prompt":"a","first_frame":"/etc/passwd"})", R"({"prompt":"a","first_frame":"secret.png"})",
                              R"({"prompt":"a","references":["jobs/../secret.png"]})", R"({"prompt":7})", R"({"prompt":"a","frames":-1})", R"({"prompt":""})"}) {
    NewJob n = job(1);
    n.options = options;
    ids.push_back(store_->create(n).job.id);
  }
  begin();
  for (const std::string& id : ids) {
    const Job j = ended(id);
    EXPECT_EQ(j.status, JobStatus::failed) << j.options;
    EXPECT_EQ(j.error_code, "request") << j.options << ": " << j.error_message;
  }
}

TEST_F(Workers, ABrokenMediumNamesTheFieldOfTheRequest) {
  struct Case {
    const char *option, *request, *field;
  };
  const std::string whole = read_bytes(std::string(ZT_SOURCE_DIR) + "/tests/fixtures/media/rgb.png");
  std::vector<std::pair<std::string, std::string>> wanted;   // job, field
  for (const Case& c : {Case{"first_frame", R"({"media":{"PATH":"input_reference"}})", "input_reference"}, Case{"last_frame", "", "last_frame"},
                        Case{"references", R"({"media":{"PATH":"conditions[1].uri"}})", "conditions[1].uri"},
                        Case{"references", R"({"media":{"PATH":7}})", "references[0]"}, Case{"extend", R"({"media":[]})", "extend"}}) {
    NewJob n = job(1);
    const std::string folder = job_folder(n.id) + "/input", path = folder + "/medium";
    fs::create_directories(data_ + "/" + folder);
    std::ofstream(data_ + "/" + path, std::ios::binary) << whole.substr(0, whole.size() / 2);
    Json options = parse_json(n.options, "options");
    if (std::string(c.option) == "references") options["references"] = {path};
    else options[c.option] = path;
    if (std::string(c.option) == "extend") options.erase("size");
    n.options = options.dump();
    n.request = c.request;
    if (const size_t at = n.request.find("PATH"); at != n.request.npos) n.request.replace(at, 4, path);
    wanted.emplace_back(store_->create(n).job.id, c.field);
  }
  begin();
  for (const auto& [id, field] : wanted) {
    const Job j = ended(id);
    EXPECT_EQ(j.status, JobStatus::failed);
    EXPECT_EQ(j.error_code, "request") << j.error_message;
    EXPECT_EQ(j.error_param, field) << j.error_message;
    EXPECT_NE(j.error_message.find(field), std::string::npos) << j.error_message;
    EXPECT_EQ(j.error_message.find(data_), std::string::npos) << j.error_message;
  }
  NewJob n = job(1);
  n.options = R"({"prompt":""})";
  EXPECT_EQ(ended(store_->create(n).job.id).error_param, "");
}

TEST_F(Workers, AFolderThatCannotBeWrittenHoldsJobsBackAndLosesNone) {
  const std::string away = data_ + "/inner", id = add(2);
  options_.data = away;   // does not exist
  begin();
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(store_->get(id)->status, JobStatus::queued);
  fs::create_directories(away);
  EXPECT_EQ(ended(id).status, JobStatus::completed);
  end();
  options_.data = data_;
}

TEST_F(Workers, AFolderThatBreaksDuringARunLosesNoJob) {
  options_.data = data_ + "/inner";
  fs::create_directories(options_.data);
  const std::string id = add(300);
  begin();
  running(id, 3);
  fs::rename(options_.data, data_ + "/outer");
  wait(id, [](const Job& j) { return j.status == JobStatus::queued; });
  fs::rename(data_ + "/outer", options_.data);
  const Job j = ended(id);
  EXPECT_EQ(j.status, JobStatus::completed) << j.error_message;
  end();
  EXPECT_EQ(read_bytes(options_.data + "/" + parse_json(j.result, "r")["files"]["video"]["path"].get<std::string>()), undisturbed(300));
}

// A store of results that is away until `back`.
class AwayResults final : public ResultStore {
 public:
  std::atomic<bool> back{false};
  std::atomic<int> waiting{0};
  std::vector<std::string> kept() const {
    const std::lock_guard lock(mutex_);
    return kept_;
  }
  std::vector<std::string> forgotten() const {
    const std::lock_guard lock(mutex_);
    return forgotten_;
  }
  bool remote() const override { return true; }
  bool keep(const std::string& name, const std::string&, const std::string&, const std::atomic<bool>* cancel) override {
    ++waiting;
    while (!back && !*cancel) std::this_thread::sleep_for(5ms);
    --waiting;
    if (*cancel) return false;
    const std::lock_guard lock(mutex_);
    kept_.push_back(name);
    return true;
  }
  std::optional<KeptFile> open(const std::string&) override { return std::nullopt; }
  bool fetch(const std::string&, const std::string&) override { return false; }
  void forget(const std::string& name, const std::string& except) override {
    const std::lock_guard lock(mutex_);
    forgotten_.push_back(name + (except.empty() ? "" : " but " + except));
  }
  void sweep(const std::function<bool(const std::string&, const std::string&)>&) override {}
  std::string problem() override { return ""; }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> kept_, forgotten_;
};

TEST_F(Workers, AClipThatWaitsForTheStoreHoldsNeitherTheEngineNorTheNextJob) {
  AwayResults away;
  EngineTurn turn;
  options_.results = &away, options_.turn = &turn, options_.lease_ms = 400, options_.most_waiting = 2;
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(add(1));
  begin();
  for (int i = 0; i < 3000 && away.waiting < 2; ++i) std::this_thread::sleep_for(10ms);
  ASSERT_EQ(away.waiting, 2);
  const std::vector<int64_t> tokens{store_->get(ids[0])->token, store_->get(ids[1])->token};
  std::atomic<bool> had{false};
  std::thread live([&] {   // as a channel takes it
    const EngineTurn::Hold hold(turn);
    had = true;
  });
  for (int i = 0; i < 200 && !had; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(had);
  std::this_thread::sleep_for(1500ms);   // more than three leases
  const auto free = store_->claim("another", 200);   // for a moment
  ASSERT_TRUE(free);
  EXPECT_EQ(free->id, ids[2]) << "the leases of those that wait are kept";
  EXPECT_EQ(away.waiting, 2) << "no more than the limit are made ahead";
  for (size_t i : {0, 1}) {
    EXPECT_EQ(store_->get(ids[i])->status, JobStatus::in_progress);
    EXPECT_EQ(store_->get(ids[i])->token, tokens[i]);
  }
  away.back = true;
  for (const std::string& id : ids) {
    const Job j = ended(id);
    EXPECT_EQ(j.status, JobStatus::completed) << j.error_message;
  }
  live.join();
  end();
  EXPECT_EQ(away.kept().size(), 12u);   // four files of each, once
}

TEST_F(Workers, AClipThatWaitsIsCancelledDeletedOrGivenBack) {
  AwayResults away;
  options_.results = &away;
  const std::string cancelled = add(1), deleted = add(1), stays = add(1);
  begin();
  for (int i = 0; i < 3000 && away.waiting < 3; ++i) std::this_thread::sleep_for(10ms);
  ASSERT_EQ(away.waiting, 3);
  store_->request_cancel(cancelled);
  EXPECT_EQ(ended(cancelled).status, JobStatus::cancelled);
  store_->erase(deleted);
  for (int i = 0; i < 1000 && away.waiting > 1; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(away.waiting, 1);
  const std::string folder = fmt::format("{}/{}/run.{}", data_, job_folder(stays), store_->get(stays)->token);
  end();
  const Job back = *store_->get(stays);
  EXPECT_EQ(back.status, JobStatus::queued);
  away.back = true;
  const Json note = read_json(folder + "/made.0.json", 1 << 20);
  begin();
  const Job done = ended(stays);
  ASSERT_EQ(done.status, JobStatus::completed) << done.error_message;
  end();
  EXPECT_EQ(parse_json(done.result, "result")["total_seconds"], note["clip"]["total_seconds"]) << "it was made again";
  EXPECT_FALSE(fs::exists(data_ + "/" + job_folder(deleted)));
}

TEST_F(Workers, ALostLeaseForgetsItsOwnFilesAlone) {
  AwayResults away;
  options_.results = &away, options_.most_waiting = 1;   // so that it does not take the job itself again
  const std::string id = add(1);
  begin();
  for (int i = 0; i < 3000 && away.waiting < 1; ++i) std::this_thread::sleep_for(10ms);
  const int64_t token = store_->get(id)->token;
  ASSERT_TRUE(store_->release({id, token}));   // as if its lease had ended
  const auto other = store_->claim("another", 60000);
  ASSERT_TRUE(other);
  for (int i = 0; i < 1000 && away.waiting > 0; ++i) std::this_thread::sleep_for(10ms);
  end();
  EXPECT_EQ(away.forgotten(), std::vector<std::string>{fmt::format("{}/run.{}", job_folder(id), token)});
}

TEST_F(Workers, TheSweepRemovesWhatNobodyKnows) {
  const std::string orphan = data_ + "/" + job_folder(new_job_id()), fresh = data_ + "/" + job_folder(new_job_id()), other = data_ + "/jobs/notes";
  for (const std::string& f : {orphan, fresh, other}) fs::create_directories(f + "/input");
  for (const std::string& f : {orphan, other}) fs::last_write_time(f, fs::file_time_type::clock::now() - 2h);
  sweep_data_folder(*store_, *open_results("", data_), data_);
  EXPECT_FALSE(fs::exists(orphan));
  EXPECT_TRUE(fs::exists(fresh));
  EXPECT_TRUE(fs::exists(other));
}

}  // namespace
}  // namespace zt
