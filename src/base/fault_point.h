// Named places where a test can stop the program: every durable step passes one before it acts and the caller's next
// step passes another after it, so a kill at each point covers each state that a crash can leave.
#pragma once

#include <functional>
#include <string>

namespace firn {

// Costs one relaxed atomic load when nothing is armed. Armed by the environment (read once):
//   FIRN_FAULT_KILL_AT=<n>    the n-th pass (from 1, over all names and threads) ends the process at once with status
//   137,
//                             no destructor run; with FIRN_FAULT_FORGET=1 what was not synced is undone first
//                             (io/unsynced.h).
//   FIRN_FAULT_LOG=<file>     each pass appends its name and a newline.
// or in a process by set_fault_handler.
void fault_point(const char* name);

// Called at every pass, before the environment's rule; may throw (the pass then throws). nullptr removes it. For tests;
// not while other threads pass points.
void set_fault_handler(std::function<void(const char* name)> handler);

// Runs just before a kill with FIRN_FAULT_FORGET=1. Set by io/unsynced.cc.
void set_forget_hook(std::function<void()> hook);

// --- a program that dies and starts again within one process, for tests that do so thousands of times ---

// What every step of a stopped program throws. No std::exception: nobody who handles errors may handle this.
struct Stopped {};

// As if the process had been killed here, called by a fault handler: from now on fault_point and every durable step of
// io/ throw Stopped and change nothing, on all threads; removals, which destructors make, do nothing instead. What the
// program had open is then to be destroyed, which releases its locks, before restart_program() ends this state.
void stop_program();
void restart_program();
bool is_program_stopped();  // one relaxed load
void check_program_runs();  // throws Stopped if it is stopped

// fault_point for what destructors do: where that would throw Stopped, this is false, and nothing may be done.
bool survives_fault_point(const char* name);

}  // namespace firn
