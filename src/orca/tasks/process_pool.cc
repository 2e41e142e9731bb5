// Workers that are processes of this program: both sides of the pipe.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "io/local.h"
#include "orca/tasks/frames.h"
#include "orca/tasks/task_pool.h"

extern char** environ;

namespace firn::orca {
namespace {

constexpr const char* kDescriptorVariable = "ORCA_INTERNAL_TASK_DESCRIPTOR";

// A worker, from the side of the thread that started it. That thread is its parent in the kernel's eyes: when it ends,
// so does the worker (PR_SET_PDEATHSIG).
class Worker {
 public:
  explicit Worker(const std::vector<std::string>& command);
  ~Worker() { end(); }

  // nullopt: it died.
  std::optional<TaskReply> run(const TaskRequest& request) {
    std::string bytes;
    encode_value(bytes, request);
    if (!write_frame(socket_.get(), bytes)) return std::nullopt;
    const std::optional<std::string> reply = read_frame(socket_.get());
    if (!reply) return std::nullopt;
    return decode_whole<TaskReply>(*reply);
  }

  // Ends it, if it still runs, and says how it ended.
  std::string end() {
    if (pid_ < 0) return "";
    kill(pid_, SIGKILL);
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    if (WIFSIGNALED(status)) return fmt::format("by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return fmt::format("with status {}", WEXITSTATUS(status));
  }
  // What end() would say if the worker has ended by itself; waits a moment for that.
  std::string reap() {
    for (int i = 0; i < 100; ++i) {
      siginfo_t info{};
      if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return end();
  }
  pid_t pid() const { return pid_; }

 private:
  Descriptor socket_;
  pid_t pid_ = -1;
};

Worker::Worker(const std::vector<std::string>& command) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) fail_errno(errno, "a worker's socket");
  socket_ = Descriptor(pair[0]);
  const Descriptor theirs(pair[1]);
  // Between fork and exec only what is safe in a signal handler: all memory is made here.
  std::vector<std::string> words = command.empty() ? std::vector<std::string>{"/proc/self/exe"} : command;
  std::vector<char*> argv, envp;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::string variable = fmt::format("{}={}", kDescriptorVariable, theirs.get());
  for (char** one = environ; *one != nullptr; ++one) {
    if (!std::string_view(*one).starts_with(kDescriptorVariable)) envp.push_back(*one);
  }
  envp.push_back(variable.data());
  envp.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) fail_errno(errno, "a worker's process");
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);  // it died before the line above
    // A signal to the terminal's group or the service's comes to all, and the parent decides: what runs is to have the
    // time that it gives. Ignored signals stay so over exec.
    for (const int number : {SIGINT, SIGTERM}) signal(number, SIG_IGN);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    fcntl(theirs.get(), F_SETFD, 0);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
}

class ProcessPool final : public TaskPool {
 public:
  ProcessPool(size_t workers, size_t queue_max, const TaskOptions& options)
      : command_(options.worker_command), tries_(std::max(1, options.tries)), queue_(queue_max), at_work_(workers) {}
  ~ProcessPool() override {
    queue_.close();
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (const AtWork& worker : at_work_) worker.kill();
  }
  void submit(std::shared_ptr<PendingTask> task) override {
    if (!queue_.put(std::move(task))) return;
    const std::lock_guard lock(mutex_);
    add_task_thread(threads_, at_work_.size(), [this, index = threads_.size()] { work(index); });
  }
  void cancel(const TaskOwner& owner) override {
    queue_.drop(owner);
    const std::lock_guard lock(mutex_);
    for (const AtWork& worker : at_work_) {
      if (worker.owner == &owner) worker.kill();
    }
  }

 private:
  struct AtWork {
    pid_t pid = -1;                    // -1: none. Not yet waited for: its thread takes the mutex first
    const TaskOwner* owner = nullptr;  // of the task that it runs
    void kill() const {
      if (pid > 0) ::kill(pid, SIGKILL);
    }
  };

  void work(size_t index) {
    std::unique_ptr<Worker> worker;
    while (const std::shared_ptr<PendingTask> task = queue_.take()) {
      try {
        run(index, worker, *task);
      } catch (...) {  // get() rethrows it
        task->fail_with(std::current_exception());
      }
    }
    forget(index);
  }

  void run(size_t index, std::unique_ptr<Worker>& worker, PendingTask& task) {
    for (int tried = 1;; ++tried) {
      task.throw_if_cancelled();
      if (!worker) start(index, worker);
      set_owner(index, task.owner.get());
      std::optional<TaskReply> reply;
      if (!task.owner->cancelled) reply = worker->run({.name = task.name, .arguments = task.arguments});
      set_owner(index, nullptr);
      if (task.owner->cancelled) {  // cancel() may have killed it
        forget(index);
        worker.reset();
        task.throw_if_cancelled();
      }
      if (reply && reply->ok) {
        task.succeed(std::move(reply->bytes));
        return;
      }
      if (reply) throw Error(static_cast<ErrorKind>(reply->kind), reply->bytes);
      const std::string how = end(index, worker);
      if (is_ending()) fail(ErrorKind::cancelled, "task {}: the workers were stopped", task.name);
      if (tried >= tries_) {
        fail(ErrorKind::io, "task {}: its worker ended {}, {} times; its output is above, where it wrote any",
             task.name, how, tried);
      }
      spdlog::warn("task {}: its worker ended {}; another runs it again", task.name, how);
    }
  }

  void start(size_t index, std::unique_ptr<Worker>& worker) {
    auto started = std::make_unique<Worker>(command_);
    const std::lock_guard lock(mutex_);
    at_work_[index].pid = started->pid();
    worker = std::move(started);
    if (ending_) at_work_[index].kill();
  }
  std::string end(size_t index, std::unique_ptr<Worker>& worker) {
    forget(index);
    if (!worker) return "";
    std::string how = worker->reap();
    worker.reset();
    return how;
  }
  // What cancel() sees.
  void set_owner(size_t index, const TaskOwner* owner) {
    const std::lock_guard lock(mutex_);
    at_work_[index].owner = owner;
  }
  void forget(size_t index) {
    const std::lock_guard lock(mutex_);
    at_work_[index].pid = -1;
  }
  bool is_ending() {
    const std::lock_guard lock(mutex_);
    return ending_;
  }

  std::vector<std::string> command_;
  int tries_;
  TaskQueue queue_;
  std::mutex mutex_;
  bool ending_ = false;
  std::vector<AtWork> at_work_;        // by worker
  std::vector<std::jthread> threads_;  // begun as tasks need them
};

TaskReply reply_of(const TaskRequest& request) {
  try {
    return {.bytes = invoke_by_name(request.name, request.arguments)};
  } catch (const Error& e) {
    return {.ok = false, .kind = static_cast<uint8_t>(e.kind()), .bytes = e.what()};
  } catch (const std::exception& e) {
    return {.ok = false,
            .kind = static_cast<uint8_t>(ErrorKind::internal),
            .bytes = fmt::format("task {}: {}", request.name, e.what())};
  }
}

}  // namespace

std::unique_ptr<TaskPool> make_process_pool(size_t workers, size_t queue_max, const TaskOptions& options) {
  return std::make_unique<ProcessPool>(workers, queue_max, options);
}

void run_if_task_worker() {
  const char* text = std::getenv(kDescriptorVariable);
  if (text == nullptr) return;
  const int socket = std::atoi(text);
  unsetenv(kDescriptorVariable);
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  // The end of the parent is seen while a task runs, too: by this thread, which does nothing but read.
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<std::string> frames;
  std::thread reader([&] {
    for (;;) {
      std::optional<std::string> frame = read_frame(socket);
      if (!frame) _exit(0);
      const std::lock_guard lock(mutex);
      frames.push_back(std::move(*frame));
      arrived.notify_one();
    }
  });
  for (;;) {
    std::string frame;
    {
      std::unique_lock lock(mutex);
      arrived.wait(lock, [&] { return !frames.empty(); });
      frame = std::move(frames.front());
      frames.pop_front();
    }
    std::string bytes;
    encode_value(bytes, reply_of(decode_whole<TaskRequest>(frame)));
    if (!write_frame(socket, bytes)) _exit(0);
  }
}

}  // namespace firn::orca
