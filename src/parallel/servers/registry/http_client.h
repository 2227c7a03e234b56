// HTTP as etcd's gateway needs it, by libcurl: a question and its answer, and an answer that goes on line by line. No
// TLS, no proxies, no redirects. One thread uses an object.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"

namespace trifold {

struct HttpAnswer {
  long status = 0;
  std::string body = {};
};

// No answer, or not all of it.
class HttpFailure : public Error {
 public:
  HttpFailure(bool sent, const std::string& message) : Error(Fault::runtime, message), sent_(sent) {}
  // False: nobody has seen the question. Certain of those that go only once.
  bool sent() const { return sent_; }

 private:
  bool sent_;
};

struct HttpQuestion {
  std::string url = {};  // http://...
  std::string body = {};
  std::vector<std::string> headers = {};
  std::chrono::milliseconds timeout = std::chrono::seconds(1);  // of a stream: until it is connected
  // Over a connection of its own: one that was used before may turn out to be dead when the question may have been
  // read already, and libcurl then asks again by itself.
  bool only_once = false;
};

class HttpClient {
 public:
  HttpClient();
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  HttpAnswer post(const HttpQuestion& question);

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

class HttpStream {
 public:
  explicit HttpStream(const HttpQuestion& question);
  ~HttpStream();
  HttpStream(const HttpStream&) = delete;
  HttpStream& operator=(const HttpStream&) = delete;

  // The next line; null: none came in that time. HttpFailure: none will come any more.
  std::optional<std::string> next_line(std::chrono::milliseconds timeout);

 private:
  struct Handle;
  std::unique_ptr<Handle> handle_;
};

}  // namespace trifold
