// A network between sink and receiver that loses, doubles and delays: nothing arrives twice or not at all (P10.5,
// P11.2).
#include "hyp/forward/forward_box.h"

namespace firn::hyp {
namespace {

const std::vector<Fault::Kind> kLosses = {Fault::Kind::cut_request, Fault::Kind::cut_answer, Fault::Kind::lose,
                                          Fault::Kind::late, Fault::Kind::duplicate};

TEST(ForwardFaults, WhateverIsLostEachRowArrivesOnce) {
  for (const Fault::Kind kind : kLosses) {
    SCOPED_TRACE(static_cast<int>(kind));
    ForwardBox box;
    box.sink.unit_rows_max = 2;
    box.ingest_rows(numbered(1, 5));
    box.fail_posts({{.kind = kind}, {}, {.kind = kind}, {.kind = kind}});
    box.ship_all();
    box.proxy.deliver_late();
    EXPECT_EQ(box.receiver.rows("logs"), numbered(1, 5));
    const bool is_heard = kind == Fault::Kind::duplicate;
    EXPECT_EQ(box.waits_ms, is_heard ? std::vector<int64_t>() : (std::vector<int64_t>{30'000, 30'000, 60'000}));
  }
}

TEST(ForwardFaults, ALostAnswerWhoseBatchIdIsForgottenIsRecognisedByItsRange) {
  ForwardBox box;
  box.ingest_rows(numbered(1, 5));
  box.proxy.set_script([&, is_first = true](const ProxiedRequest& request) mutable {
    if (request.method != "POST") return Fault();
    if (!is_first) box.receiver.forget_batch_ids();
    return std::exchange(is_first, false) ? Fault{.kind = Fault::Kind::cut_answer} : Fault();
  });
  EXPECT_EQ(box.ship_all().rows(), 5);
  EXPECT_EQ(box.received(), sorted_rows(numbered(1, 5)));
}

TEST(ForwardFaults, AnAnsweredPartOfAUnitIsNotSentAgainByALaterRun) {
  for (const bool is_id_forgotten : {false, true}) {
    ForwardBox box;
    box.sink.unit_bytes_max = 20;  // two rows a body
    box.sink.unit_rows_max = 6;
    box.ingest_rows(numbered(1, 6));
    // The second body is lost, and the receiver is away for the rest of the run.
    box.proxy.set_script([&](const ProxiedRequest& request) {
      return request.method == "POST" && box.posts().size() > 1 ? answer_with(503) : Fault();
    });
    box.failed_run();
    ASSERT_EQ(box.receiver.rows("logs").size(), 2u);
    if (is_id_forgotten) box.receiver.forget_batch_ids();
    box.proxy.set_script({});
    box.ingest_rows(numbered(7, 9));
    box.ship_all();
    EXPECT_EQ(box.receiver.rows("logs"), numbered(1, 9));
    const Cache cache(box.config);
    EXPECT_EQ(sink_status(cache, box.sink).at(0).exported_rows, 9);
  }
}

TEST(ForwardFaults, ALateRequestOfAnEarlierRunChangesNothing) {
  ForwardBox box;
  box.ingest_rows(numbered(1, 3));
  box.proxy.set_script([](const ProxiedRequest& request) {
    return request.method == "POST" ? Fault{.kind = Fault::Kind::late} : Fault();
  });
  box.failed_run();
  box.proxy.set_script({});
  box.ingest_rows(numbered(4, 5));
  box.ship_all();
  box.receiver.forget_batch_ids();
  box.proxy.deliver_late();
  EXPECT_EQ(box.receiver.rows("logs"), numbered(1, 5));
}

// Case 20: the append lands, the bookmark does not, new rows come, restart. What the specification calls the known gap.
TEST(ForwardFaults, Case20ARangeThatLandedDoesNotGrowOnRetry) {
  for (const bool is_id_forgotten : {false, true}) {
    ForwardBox box;
    box.ingest_rows(numbered(1, 3));
    box.proxy.set_script([](const ProxiedRequest& request) {
      return request.method == "POST" ? Fault{.kind = Fault::Kind::cut_answer} : Fault();
    });
    box.failed_run();  // it landed, and nobody heard
    ASSERT_EQ(box.received(), sorted_rows(numbered(1, 3)));
    if (is_id_forgotten) box.receiver.forget_batch_ids();
    box.proxy.set_script({});
    box.ingest_rows(numbered(4, 8));
    const SinkRunReport report = box.ship_all();
    EXPECT_EQ(report.rows(), is_id_forgotten ? 5 : 8);
    EXPECT_EQ(box.receiver.rows("logs"), numbered(1, 8));
  }
}

}  // namespace
}  // namespace firn::hyp
