#include "parallel/communicator/mpi/mpi_name_server.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/error.h"

namespace trifold {
namespace {

constexpr int kStartTime = 20000;  // ms

// The child ends with this process, however that ends. It writes its address to a file, here one end of a pipe: what it
// writes to its standard output stays in a buffer.
[[noreturn]] void become_name_server(const char* address_file) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::execlp("ompi-server", "ompi-server", "--no-daemonize", "--report-uri", address_file, nullptr);
  ::_exit(127);
}

// Up to the end of a line; less when nothing more comes.
std::string read_line(int descriptor) {
  std::string line;
  pollfd event{descriptor, POLLIN, 0};
  for (char byte = 0; ::poll(&event, 1, kStartTime) > 0 && ::read(descriptor, &byte, 1) == 1 && byte != '\n';)
    line += byte;
  return line;
}

}  // namespace

MpiNameServer::MpiNameServer() {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) fail_runtime("cannot make a pipe: {}", std::strerror(errno));
  ::fcntl(pipe[0], F_SETFD, FD_CLOEXEC);
  const std::string address_file = fmt::format("/dev/fd/{}", pipe[1]);
  process_ = ::fork();
  if (process_ == 0) become_name_server(address_file.c_str());
  ::close(pipe[1]);
  address_ = process_ > 0 ? read_line(pipe[0]) : "";
  ::close(pipe[0]);
  if (!address_.empty()) return;
  stop();
  fail_input(
      "processes that mpirun or srun did not start find each other by Open MPI's ompi-server, which does not run here: "
      "install openmpi-bin, or start them with mpirun");
}

MpiNameServer::~MpiNameServer() {
  stop();
}

void MpiNameServer::stop() const {
  if (process_ <= 0) return;
  ::kill(process_, SIGTERM);
  ::waitpid(process_, nullptr, 0);
}

void use_name_server(const std::string& address) {
  ::setenv("OMPI_MCA_pmix_server_uri", address.c_str(), 1);
}

}  // namespace trifold
