#include "base/threads.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/parallel.h"
#include "support/crash.h"

namespace firn {
namespace {

// For a child process: it gets no thread more. Root, whom the limit does not concern, becomes nobody.
void forbid_threads() {
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_NPROC, &none) != 0) fail_errno(errno, "setrlimit");
  constexpr uid_t kNobody = 65534;
  if (::geteuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) fail_errno(errno, "setresuid");
}

TEST(Threads, WhereNoneCanBeBegunThoseThatThereAreDoTheWork) {
  EXPECT_EQ(run_in_child([] {
              forbid_threads();
              std::atomic<int> calls{0};
              parallel_for(100, 4, [&](size_t) { ++calls; });
              if (calls != 100) fail(ErrorKind::internal, "{} calls", calls.load());
              if (has_arrow_threads()) fail(ErrorKind::internal, "Arrow's pool is used without its threads");
            }),
            0);
}

TEST(Threads, TheErrorNamesTheLimitThatIsToBeRaised) {
  EXPECT_EQ(run_in_child([] {
              forbid_threads();
              try {
                begin_thread([] {});
              } catch (const Error& e) {
                const bool is_told = std::string(e.what()).find("ulimit -u") != std::string::npos;
                if (e.kind() == ErrorKind::busy && is_told) return;
                throw;
              }
              fail(ErrorKind::internal, "a thread was begun");
            }),
            0);
}

TEST(Threads, ArrowsPoolHasItsThreads) { EXPECT_TRUE(has_arrow_threads()); }

}  // namespace
}  // namespace firn
