// A library that the fault tests preload into the processes of a job: it kills one of them with SIGKILL at an exact
// place in the program, which nobody could hit from outside. The program itself knows nothing of it.
//   KILL_AT     work: a kernel has just run; collective: the second exchange of a sum has begun; message: a message has
//               begun; checkpoint: half of a file is written; rename: a file is complete but for its name
//   KILL_IN     the rank that gets to this place; KILL_RANK: the one that is killed
//   KILL_AFTER  a file; nothing happens before it exists
//   KILL_TIMES  how often, over all processes that run in this folder (default: 1)
// In the folder it leaves pid.<rank>, exit.<rank> with the exit code of a process that ended by itself, and killed.<n>.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef TRIFOLD_MPI
#include <mpi.h>
#endif

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A process that is alone is rank 0.
std::string own_rank() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "RANK"})
    if (const std::string rank = variable(name); !rank.empty()) return rank;
  return "0";
}

template <class Function>
Function* next(Function* /*ours*/, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void leave(const std::string& file, int number) {
  if (std::FILE* out = std::fopen(file.c_str(), "w")) {
    std::fprintf(out, "%d\n", number);
    std::fclose(out);
  }
}

int number_in(const std::string& file) {
  int number = -1;
  if (std::FILE* in = std::fopen(file.c_str(), "r")) {
    if (std::fscanf(in, "%d", &number) != 1) number = -1;
    std::fclose(in);
  }
  return number;
}

bool take_turn() {
  const std::string given = variable("KILL_TIMES");
  const int times = given.empty() ? 1 : std::stoi(given);
  for (int turn = 0; turn < times; ++turn) {
    const int file = ::open(("killed." + std::to_string(turn)).c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0) continue;
    ::close(file);
    return true;
  }
  return false;
}

bool waits_for(const char* place) {
  static const std::string wanted = variable("KILL_IN") == own_rank() ? variable("KILL_AT") : "";
  static const std::string after = variable("KILL_AFTER");
  return wanted == place && ::access(after.c_str(), F_OK) == 0;
}

void reach(const char* place) {
  static std::atomic<bool> reached = false;  // ranks that are threads get there together: one turn a process
  if (!waits_for(place) || reached.exchange(true) || !take_turn()) return;
  const std::string victim = variable("KILL_RANK");
  ::kill(victim == own_rank() ? ::getpid() : number_in("pid." + victim), SIGKILL);
}

bool is_checkpoint(const std::string& path, const char* prefix) {
  return path.substr(path.rfind('/') + 1).starts_with(prefix);
}

void leave_exit_code(int code, void* /*unused*/) {
  leave("exit." + own_rank(), code);
}

// Programs that a rank starts inherit its rank.
bool is_trifold() {
  return std::string_view(program_invocation_short_name) == "trifold";
}

[[gnu::constructor]] void introduce() {
  if (!is_trifold()) return;
  leave("pid." + own_rank(), ::getpid());
  ::on_exit(leave_exit_code, nullptr);
}

}  // namespace

extern "C" {

void _exit(int code) {
  if (is_trifold()) leave_exit_code(code, nullptr);
  ::syscall(SYS_exit_group, code);
  __builtin_unreachable();
}

int dnnl_primitive_execute(const void* primitive, void* stream, int count, const void* arguments) {
  static auto* const real = next(dnnl_primitive_execute, "dnnl_primitive_execute");
  const int status = real(primitive, stream, count, arguments);
  reach("work");
  return status;
}

ssize_t write(int file, const void* bytes, std::size_t count) {
  static auto* const real = next(write, "write");
  if (count < 1024 || !waits_for("checkpoint")) return real(file, bytes, count);
  char path[4096] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  if (::readlink(link.c_str(), path, sizeof path - 1) < 0 || !is_checkpoint(path, ".step-"))
    return real(file, bytes, count);
  const ssize_t written = real(file, bytes, count / 2);
  reach("checkpoint");
  return written;
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = next(rename, "rename");
  if (is_checkpoint(to, "step-")) reach("rename");
  return real(from, to);
}

#ifdef TRIFOLD_MPI
int MPI_Iallgatherv(const void* in, int count, MPI_Datatype in_type, void* out, const int counts[], const int offsets[],
                    MPI_Datatype out_type, MPI_Comm group, MPI_Request* request) {
  static auto* const real = next(MPI_Iallgatherv, "MPI_Iallgatherv");
  const int status = real(in, count, in_type, out, counts, offsets, out_type, group, request);
  reach("collective");
  return status;
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm group, MPI_Request* request) {
  static auto* const real = next(MPI_Isend, "MPI_Isend");
  const int status = real(data, count, type, to, tag, group, request);
  if (count >= 1024) reach("message");  // a tensor
  return status;
}
#endif
}
