// One body for both drivers: every test runs on SQLite and, where Debian's server is installed, on a PostgreSQL that the tests start.
#include "serve/store/job_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "base/error.h"
#include "serve/store/test_servers.h"

namespace zt {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class Stores : public testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    if (GetParam() == StoreKind::postgres && !postgres_installed()) GTEST_SKIP() << "no PostgreSQL server is installed (package postgresql)";
    place_ = std::make_unique<StorePlace>(GetParam());
    options_.now_ms = [this] { return clock_.load(); };
    store_ = open_store(place_->url(), options_);
  }

  NewJob job(const std::string& owner = "", int priority = kInteractivePriority) {
    NewJob n;
    n.owner = owner, n.priority = priority, n.options = R"({"prompt":"a"})", n.request = "{}";
    return n;
  }
  std::string add(const std::string& owner = "", int priority = kInteractivePriority) {
    clock_ += 10;
    return store_->create(job(owner, priority)).job.id;
  }
  Job take(const std::string& worker = "w") {
    auto j = store_->claim(worker, 1000);
    EXPECT_TRUE(j);
    return j.value_or(Job{});
  }
  static Lease lease(const Job& j) { return {j.id, j.token}; }
  void sound() { EXPECT_EQ(store_->check(), std::vector<std::string>{}); }

  std::atomic<int64_t> clock_{1'000'000};
  StoreOptions options_;
  std::unique_ptr<StorePlace> place_;
  std::unique_ptr<JobStore> store_;
};

TEST_P(Stores, VotesAreCountedByWhatWasCompared) {
  EXPECT_TRUE(store_->votes().empty());
  store_->add_vote({"key1", "fast, 4", "fast, 8", "b"});
  store_->add_vote({"key1", "fast, 8", "fast, 4", "a"});   // the same pair and the same choice, named the other way round
  store_->add_vote({"key2", "fast, 8", "fast, 4", "b"});
  store_->add_vote({"key1", "fast, 4", "fast, 8", "same"});
  store_->add_vote({"key1", "exact, 8", "fast, 8", "a"});
  EXPECT_THROW(store_->add_vote({"key1", "x", "y", "c"}), Error);
  const auto all = store_->votes(), mine = store_->votes("key2");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].a, "exact, 8");
  EXPECT_EQ(all[0].a_better, 1);
  EXPECT_EQ(all[1].a, "fast, 4");
  EXPECT_EQ(all[1].b, "fast, 8");
  EXPECT_EQ(all[1].a_better, 1);
  EXPECT_EQ(all[1].b_better, 2);
  EXPECT_EQ(all[1].same, 1);
  ASSERT_EQ(mine.size(), 1u);
  EXPECT_EQ(mine[0].a_better, 1);
  EXPECT_EQ(mine[0].b_better, 0);
  store_ = nullptr;
  store_ = open_store(place_->url(), options_);
  EXPECT_EQ(store_->votes().size(), 2u);
}

TEST_P(Stores, AJobGoesThroughItsStates) {
  NewJob n = job("key1");
  n.remixed_from = "video_x", n.request = "{\"prompt\":\"\xc3\xa9\"}", n.retention_ms = 500;
  const Job made = store_->create(n).job;
  EXPECT_EQ(made.status, JobStatus::queued);
  EXPECT_EQ(made.request, n.request);
  EXPECT_EQ(made.remixed_from, "video_x");
  EXPECT_EQ(made.created_ms, 1'000'000);
  const Job running = take("worker 1");
  EXPECT_EQ(running.id, made.id);
  EXPECT_EQ(running.status, JobStatus::in_progress);
  EXPECT_EQ(running.worker, "worker 1");
  EXPECT_EQ(running.attempt, 1);
  EXPECT_TRUE(store_->progress(lease(running), {"denoise", 3, 7, 40}).held);
  EXPECT_EQ(store_->get(made.id)->stage, "denoise");
  EXPECT_EQ(store_->get(made.id)->percent, 40);
  sound();
  clock_ += 100;
  EXPECT_TRUE(store_->complete(lease(running), "{\"files\":{}}"));
  const Job done = *store_->get(made.id);
  EXPECT_EQ(done.status, JobStatus::completed);
  EXPECT_EQ(done.percent, 100);
  EXPECT_EQ(done.ended_ms, 1'000'100);
  EXPECT_EQ(done.expires_ms, 1'000'600);
  EXPECT_FALSE(store_->claim("w", 1000));
  sound();
}

TEST_P(Stores, CompletingTwiceIsOneCompletion) {
  add();
  const Job j = take();
  EXPECT_TRUE(store_->complete(lease(j), "{}"));
  EXPECT_TRUE(store_->complete(lease(j), "{}"));   // the answer to the first was lost
  EXPECT_FALSE(store_->fail(lease(j), "internal", "x"));
  EXPECT_FALSE(store_->heartbeat(lease(j)).held);
}

TEST_P(Stores, AnotherOwnersJobIsNotThere) {
  const std::string id = add("alice");
  EXPECT_TRUE(store_->get(id, "alice"));
  EXPECT_FALSE(store_->get(id, "bob"));
  EXPECT_FALSE(store_->request_cancel(id, "bob"));
  EXPECT_FALSE(store_->erase(id, "bob"));
  EXPECT_TRUE(store_->get(id));
  EXPECT_EQ(store_->list({.owner = "bob"}).jobs.size(), 0u);
  EXPECT_THROW(store_->list({.owner = "bob", .after = id}), Error);
}

TEST_P(Stores, IdempotencyKeyGivesTheEarlierJob) {
  NewJob n = job("alice");
  n.idempotency_key = "k", n.fingerprint = "f1";
  const Created first = store_->create(n);
  EXPECT_EQ(first.outcome, CreateOutcome::created);
  n.id = "";
  const Created again = store_->create(n);
  EXPECT_EQ(again.outcome, CreateOutcome::existing);
  EXPECT_EQ(again.job.id, first.job.id);
  n.fingerprint = "f2";
  EXPECT_EQ(store_->create(n).outcome, CreateOutcome::conflict);
  n.owner = "bob";
  EXPECT_EQ(store_->create(n).outcome, CreateOutcome::created);
  store_->erase(first.job.id);
  n.owner = "alice";
  EXPECT_EQ(store_->create(n).outcome, CreateOutcome::created);
  EXPECT_EQ(store_->counts().queued, 2);
}

TEST_P(Stores, IdempotencyHoldsAmongThreads) {
  std::set<std::string> ids;
  std::mutex mutex;
  std::vector<std::thread> threads;
  auto other = open_store(place_->url(), options_);
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        NewJob n = job("alice");
        n.idempotency_key = std::to_string(i);
        const Created c = (t % 2 ? *store_ : *other).create(n);
        std::lock_guard lock(mutex);
        ids.insert(c.job.id);
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(ids.size(), 10u);
  EXPECT_EQ(store_->counts().queued, 10);
  sound();
}

TEST_P(Stores, LimitsRefuse) {
  QueueLimits limits{3, 2};
  EXPECT_EQ(store_->create(job("a"), limits).outcome, CreateOutcome::created);
  EXPECT_EQ(store_->create(job("a"), limits).outcome, CreateOutcome::created);
  EXPECT_EQ(store_->create(job("a"), limits).outcome, CreateOutcome::full);
  EXPECT_EQ(store_->create(job("b"), limits).outcome, CreateOutcome::created);
  EXPECT_EQ(store_->create(job("c"), limits).outcome, CreateOutcome::full);
  take();
  EXPECT_EQ(store_->create(job("c"), limits).outcome, CreateOutcome::created);
}

TEST_P(Stores, ListsInPages) {
  std::vector<std::string> ids;
  for (int i = 0; i < 7; ++i) ids.push_back(add(i % 2 ? "odd" : "even"));
  Page p = store_->list({.limit = 3});
  ASSERT_EQ(p.jobs.size(), 3u);
  EXPECT_TRUE(p.has_more);
  EXPECT_EQ(p.jobs[0].id, ids[6]);
  p = store_->list({.after = p.jobs[2].id, .limit = 4});
  EXPECT_FALSE(p.has_more);
  EXPECT_EQ(p.jobs[3].id, ids[0]);
  p = store_->list({.owner = "even", .limit = 10, .ascending = true});
  ASSERT_EQ(p.jobs.size(), 4u);
  EXPECT_EQ(p.jobs[1].id, ids[2]);
  store_->request_cancel(ids[3]);
  EXPECT_EQ(store_->list({.status = JobStatus::cancelled}).jobs.size(), 1u);
  p = store_->list({.limit = 0});
  EXPECT_TRUE(p.jobs.empty() && p.has_more);
  EXPECT_THROW(store_->list({.after = "video_none'; DROP TABLE jobs"}), Error);
}

TEST_P(Stores, CancelEndsAWaitingJobAtOnceAndARunningOneByItsWorker) {
  const std::string a = add(), b = add();
  EXPECT_EQ(store_->request_cancel(b)->status, JobStatus::cancelled);
  const Job j = take();
  EXPECT_EQ(j.id, a);
  EXPECT_TRUE(store_->request_cancel(a)->cancel_requested);
  EXPECT_TRUE(store_->heartbeat(lease(j)).cancel);
  EXPECT_TRUE(store_->cancelled(lease(j)));
  EXPECT_EQ(store_->get(a)->status, JobStatus::cancelled);
  EXPECT_EQ(store_->request_cancel(a)->status, JobStatus::cancelled);
  sound();
}

TEST_P(Stores, ADeletionWinsOverALaterCompletion) {
  const std::string id = add();
  const Job j = take();
  EXPECT_TRUE(store_->erase(id));
  EXPECT_FALSE(store_->erase(id));
  EXPECT_FALSE(store_->heartbeat(lease(j)).held);
  EXPECT_FALSE(store_->checkpoint(lease(j), "x", 1).held);
  EXPECT_FALSE(store_->complete(lease(j), "{}"));
  EXPECT_FALSE(store_->get(id));
  sound();
}

TEST_P(Stores, ALeaseThatEndedIsGivenAgain) {
  const std::string id = add();
  const Job first = take("one");
  store_->checkpoint(lease(first), "jobs/x/checkpoint", 4);
  clock_ += 900;
  EXPECT_TRUE(store_->heartbeat(lease(first)).held);
  clock_ += 900;
  EXPECT_FALSE(store_->claim("two", 1000));
  clock_ += 200;
  const Job second = take("two");
  EXPECT_EQ(second.id, id);
  EXPECT_EQ(second.checkpoint, "jobs/x/checkpoint");
  EXPECT_EQ(second.checkpoint_step, 4);
  EXPECT_FALSE(store_->heartbeat(lease(first)).held);
  EXPECT_FALSE(store_->complete(lease(first), "{}"));
  EXPECT_TRUE(store_->complete(lease(second), "{}"));
  sound();
}

TEST_P(Stores, AWorkerThatWasCutOffGoesOnIfNobodyTookItsJob) {
  add();
  const Job j = take();
  clock_ += 5000;
  store_->sweep();
  EXPECT_EQ(store_->get(j.id)->status, JobStatus::queued);
  EXPECT_TRUE(store_->heartbeat(lease(j)).held);
  EXPECT_EQ(store_->get(j.id)->status, JobStatus::in_progress);
  clock_ += 5000;
  store_->sweep();
  EXPECT_TRUE(store_->complete(lease(j), "{}"));
  sound();
}

TEST_P(Stores, AClockSetBackDoesNotKeepADeadLeaseAlive) {
  add();
  take("dead");
  clock_ -= 900'000;
  EXPECT_TRUE(store_->claim("w", 1000));
}

TEST_P(Stores, AJobThatKillsItsWorkersFails) {
  options_.max_attempts = 3;
  store_ = open_store(place_->url(), options_);
  const std::string id = add();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(take().attempt, i + 1);
    clock_ += 2000;
  }
  EXPECT_FALSE(store_->claim("w", 1000));
  EXPECT_EQ(store_->get(id)->status, JobStatus::failed);
  EXPECT_EQ(store_->get(id)->error_code, "worker_lost");
  sound();
}

TEST_P(Stores, ReleaseCostsNoAttempt) {
  const std::string id = add();
  for (int i = 0; i < 30; ++i) {
    const Job j = take();
    EXPECT_EQ(j.attempt, 1);
    EXPECT_TRUE(store_->release(lease(j)));
    EXPECT_FALSE(store_->heartbeat(lease(j)).held);
  }
  EXPECT_EQ(store_->get(id)->status, JobStatus::queued);
  sound();
}

TEST_P(Stores, PriorityThenFairnessThenDeadlineThenAge) {
  const std::string batch = add("a", kBatchPriority), a1 = add("a"), a2 = add("a"), b1 = add("b");
  NewJob soon = job("a");
  soon.deadline_ms = clock_ + 100'000;
  const std::string a3 = store_->create(soon).job.id;
  std::vector<std::string> order;
  for (int i = 0; i < 5; ++i) {
    const Job j = take();
    order.push_back(j.id);
    store_->complete(lease(j), "{}");
  }
  EXPECT_EQ(order, (std::vector<std::string>{a3, b1, a1, a2, batch}));
  // two workers: who has a job running waits for the other
  const std::string c1 = add("c"), c2 = add("c"), b2 = add("b");
  EXPECT_EQ(take().id, c1);   // never served
  EXPECT_EQ(take().id, b2);
  EXPECT_EQ(take().id, c2);
}

TEST_P(Stores, BatchYieldsToInteractiveButNoMoreThanNeeded) {
  add("", kBatchPriority), add("", kBatchPriority);
  const Job one = take(), two = take();
  EXPECT_FALSE(store_->heartbeat(lease(one)).yield);
  add();
  EXPECT_FALSE(store_->heartbeat(lease(one)).yield);
  EXPECT_TRUE(store_->heartbeat(lease(two)).yield);
  add();
  EXPECT_TRUE(store_->heartbeat(lease(one)).yield);
  store_->release(lease(two));
  EXPECT_EQ(take().priority, kInteractivePriority);
  EXPECT_TRUE(store_->heartbeat(lease(one)).yield);
}

TEST_P(Stores, DeadlinesEndJobs) {
  NewJob n = job();
  n.deadline_ms = clock_ + 50;
  const std::string waiting = store_->create(n).job.id;
  clock_ += 60;
  EXPECT_FALSE(store_->claim("w", 1000));
  EXPECT_EQ(store_->get(waiting)->error_code, "deadline_exceeded");
  n.deadline_ms = clock_ + 50;
  store_->create(n);
  const Job j = take();
  EXPECT_FALSE(store_->heartbeat(lease(j)).overdue);
  clock_ += 60;
  EXPECT_TRUE(store_->heartbeat(lease(j)).overdue);
}

TEST_P(Stores, ExpiredJobsAreErased) {
  NewJob n = job();
  n.retention_ms = 100;
  const std::string id = store_->create(n).job.id;
  store_->complete(lease(take()), "{}");
  EXPECT_TRUE(store_->sweep().empty());
  clock_ += 200;
  const auto gone = store_->sweep();
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].id, id);
  EXPECT_FALSE(store_->get(id));
}

TEST_P(Stores, WebhooksAreOwedUntilSettled) {
  NewJob n = job();
  n.webhook = R"({"url":"http://x"})";
  const std::string id = store_->create(n).job.id;
  EXPECT_TRUE(store_->due_webhooks(10, 500).empty());
  store_->fail(lease(take()), "model", "bad \xff byte and \0 zero");
  auto due = store_->due_webhooks(10, 500);
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].id, id);
  EXPECT_EQ(due[0].status, JobStatus::failed);
  EXPECT_TRUE(store_->due_webhooks(10, 500).empty());   // in somebody's hands
  clock_ += 501;
  EXPECT_EQ(store_->due_webhooks(10, 500).at(0).webhook_attempts, 2);   // who died
  store_->settle_webhook(id, false, clock_ + 50);
  EXPECT_TRUE(store_->due_webhooks(10, 500).empty());
  clock_ += 50;
  EXPECT_EQ(store_->due_webhooks(10, 500).size(), 1u);
  store_->settle_webhook(id, true);
  clock_ += 5000;
  EXPECT_TRUE(store_->due_webhooks(10, 500).empty());
  sound();
}

TEST_P(Stores, ChangesAreSeenInOrderAlsoByOtherProcesses) {
  auto other = open_store(place_->url(), options_);
  const int64_t start = other->revision();
  EXPECT_TRUE(other->changes(start, 0ms).empty());
  std::string a, b;
  std::thread writer([&] {
    std::this_thread::sleep_for(50ms);
    a = add(), b = add();
    store_->erase(a);
  });
  std::vector<Change> seen;
  int64_t at = start;
  const auto until = std::chrono::steady_clock::now() + 5s;
  while (std::chrono::steady_clock::now() < until && (seen.empty() || !seen.back().deleted))
    for (const Change& c : other->changes(at, 2s)) {
      EXPECT_GT(c.revision, at);
      at = c.revision;
      seen.push_back(c);
    }
  writer.join();
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.back().id, a);
  EXPECT_TRUE(seen.back().deleted);
  EXPECT_EQ(at, store_->revision());
}

TEST_P(Stores, WakeEndsAWait) {
  std::thread t([&] {
    std::this_thread::sleep_for(50ms);
    store_->wake();
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(store_->changes(store_->revision(), 10s).empty());
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  t.join();
}

TEST_P(Stores, ManyWorkersTakeEveryJobOnce) {
  constexpr int kJobs = 60;
  for (int i = 0; i < kJobs; ++i) add(std::to_string(i % 5));
  auto other = open_store(place_->url(), options_);
  std::multiset<std::string> taken;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      JobStore& s = t % 2 ? *store_ : *other;
      while (auto j = s.claim("w" + std::to_string(t), 1000)) {
        {
          std::lock_guard lock(mutex);
          taken.insert(j->id);
        }
        s.progress(lease(*j), {"denoise", 1, 2, 50});
        EXPECT_TRUE(s.complete(lease(*j), "{}"));
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(taken.size(), static_cast<size_t>(kJobs));
  EXPECT_EQ(std::set<std::string>(taken.begin(), taken.end()).size(), static_cast<size_t>(kJobs));
  EXPECT_EQ(store_->counts().completed, kJobs);
  sound();
}

TEST_P(Stores, WhatWasAcceptedIsThereAfterReopening) {
  const std::string id = add();
  store_.reset();
  store_ = open_store(place_->url(), options_);
  EXPECT_TRUE(store_->get(id));
  sound();
}

TEST_P(Stores, IdsAreChecked) {
  NewJob n = job();
  n.id = "../../etc/passwd";
  EXPECT_THROW(store_->create(n), Error);
  n.id = new_job_id();
  EXPECT_EQ(store_->create(n).job.id, n.id);
  EXPECT_THROW(store_->create(n), Error);
}

INSTANTIATE_TEST_SUITE_P(, Stores, testing::Values(StoreKind::sqlite, StoreKind::postgres),
                         [](const auto& p) { return p.param == StoreKind::sqlite ? std::string("sqlite") : std::string("postgres"); });

TEST(OpenStore, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(open_store("mysql://x"), Error);
  EXPECT_THROW(open_store("sqlite:"), Error);
  EXPECT_THROW(open_store("sqlite:/nonexistent/folder/jobs.db"), Error);
  EXPECT_THROW(open_store("postgresql://127.0.0.1:1/x?connect_timeout=1"), Error);
}

TEST(OpenStore, SaysThatAFileIsDamaged) {
  StorePlace place(StoreKind::sqlite);
  std::ofstream(place.url().substr(7)) << std::string(5000, 'x');
  try {
    open_store(place.url());
    FAIL() << "opened";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::resource);
    EXPECT_NE(std::string(e.what()).find("damaged"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace zt
