// A ledger of what the local disk would lose in a power cut, for tests: with FIRN_FAULT_FORGET=1 every change made by
// io/ is recorded until it is synced, and a kill (base/fault_point.h) first undoes what is not: appended bytes are cut,
// new names removed, renames and removals taken back. Costs one atomic load when off.
//
// It undoes what this process did, by name: no other process may be changing the same files at that moment. A rename is
// taken as durable once its target's directory is synced; the bytes of temporary files are synced before they get a
// name.
#pragma once

#include <cstdint>
#include <string>

namespace firn::unsynced {

bool enabled();
void enable();       // as FIRN_FAULT_FORGET=1
void forget_now();   // undoes everything recorded, latest first; the paths are then as after a power cut
void drop_ledger();  // as if everything recorded had been synced: its files are of no interest any more

// Held by io/ around a change and its record, so that no kill falls between the two. Does nothing when off; reentrant.
class Step {
 public:
  Step();
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

 private:
  bool is_held_;
};

// Recorders, called by io/ alone, within a Step and after the change succeeded. They do nothing when off.
void wrote(const std::string& path, int64_t synced_size_bytes);  // bytes past synced_size_bytes may be lost
void synced_file(const std::string& path);
void created(const std::string& path);  // a new name in its directory: file, link or directory
// Before `path` is replaced or removed: a hidden hard link to it in `folder`, from which it can be restored; empty
// where there is nothing to keep.
std::string keep(const std::string& path, const std::string& folder);
void drop_kept(const std::string& kept);  // the change failed
void renamed(const std::string& from, const std::string& to, const std::string& kept);
// `folder`: the directory whose sync makes the removal last; above `path`'s own where a whole tree goes.
void removed(const std::string& path, const std::string& folder, const std::string& kept);
void removed_directory(const std::string& path, const std::string& folder);
void synced_directory(const std::string& folder);

}  // namespace firn::unsynced
