// Ends a piece of code at each of its fault points (base/fault_point.h), in a forked child. For code that runs in one
// thread; a program of ours is rather run with FIRN_FAULT_KILL_AT.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace firn {

// power: what was not synced is forgotten (io/unsynced.h). power_later: only once the next process has done the work
// to its end, acting on what it found of the dead one's, durable or not yet (P10.8).
enum class Crash : uint8_t { process, power, power_later };
std::string to_text(Crash crash);
// Whether a power_later is of interest there: what the dead process did is seen and not durable.
bool leaves_undurable(const std::string& point);

// The fault points that `work` passes, in order. Runs it to its end.
std::vector<std::string> fault_points_of(const std::function<void()>& work);

// Runs `work` up to its pass `index` (from 0), where the process ends. Throws internal if it ends otherwise.
void run_killed_at(size_t index, Crash crash, const std::function<void()>& work);

// fork() for a child that goes on with the test's code, and an error if there can be none. Under the race detector,
// which ends a child that begins threads where its parent had some, it skips the test, and says so; under the address
// sanitizer, whose allocator's locks a child inherits as they are, it waits until other threads are asleep (2 s at
// most).
pid_t fork_child();

// Runs `work` in a forked child and returns its exit status (0 unless it threw, then 1 with the message on stderr).
int run_in_child(const std::function<void()>& work);

// Runs work(0) to work(count - 1), each in a forked child, all at once; returns how many did not end with status 0.
int run_in_children(int count, const std::function<void(int index)>& work);

}  // namespace firn
