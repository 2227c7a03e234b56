#include "parallel/servers/registry/http_client.h"

#include <algorithm>
#include <mutex>

#include <curl/curl.h>

namespace trifold {

// Not of the anonymous namespace, since members of the classes have them.
struct CurlEasyDeleter {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct CurlMultiDeleter {
  void operator()(CURLM* handle) const { curl_multi_cleanup(handle); }
};
struct CurlHeadersDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using CurlEasy = std::unique_ptr<CURL, CurlEasyDeleter>;
using CurlMulti = std::unique_ptr<CURLM, CurlMultiDeleter>;
using CurlHeaders = std::unique_ptr<curl_slist, CurlHeadersDeleter>;

namespace {

constexpr std::size_t kLargestAnswer = std::size_t{64} << 20;

CurlEasy make_easy() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  CurlEasy easy(curl_easy_init());
  TRIFOLD_CHECK(easy != nullptr, "libcurl gives no handle");
  return easy;
}

CurlHeaders headers_of(const HttpQuestion& question) {
  CurlHeaders headers;
  const auto append = [&](const char* header) {
    curl_slist* longer = curl_slist_append(headers.get(), header);
    TRIFOLD_CHECK(longer != nullptr, "no memory for a header");
    (void)headers.release();  // it is the same list
    headers.reset(longer);
  };
  append("Content-Type: application/json");
  append("Expect:");  // a long body is sent at once
  for (const std::string& header : question.headers) append(header.c_str());
  return headers;
}

// Returning less than was given ends the transfer.
std::size_t take_bytes(char* bytes, std::size_t size, std::size_t count, void* target) {
  auto& body = *static_cast<std::string*>(target);
  if (body.size() + size * count > kLargestAnswer) return 0;
  body.append(bytes, size * count);
  return size * count;
}

void set_question(CURL* easy, const HttpQuestion& question, const CurlHeaders& headers, std::string& body) {
  curl_easy_setopt(easy, CURLOPT_URL, question.url.c_str());
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http");
  curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(question.body.size()));
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, question.body.data());
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_bytes);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &body);
}

// A new connection that did not come about has taken no time; of used ones it is not known what went over them.
bool may_be_sent(CURL* easy, const HttpQuestion& question) {
  curl_off_t connected = 0;
  curl_easy_getinfo(easy, CURLINFO_CONNECT_TIME_T, &connected);
  return !question.only_once || connected > 0;
}

}  // namespace

struct HttpClient::Handle {
  CurlEasy easy = make_easy();
};

HttpClient::HttpClient() : handle_(std::make_unique<Handle>()) {}
HttpClient::~HttpClient() = default;

HttpAnswer HttpClient::post(const HttpQuestion& question) {
  CURL* easy = handle_->easy.get();
  curl_easy_reset(easy);  // keeps its connections
  HttpAnswer answer;
  const CurlHeaders headers = headers_of(question);
  set_question(easy, question, headers, answer.body);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, std::max(1L, static_cast<long>(question.timeout.count())));
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, question.only_once ? 1L : 0L);
  curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, question.only_once ? 1L : 0L);
  const CURLcode code = curl_easy_perform(easy);
  if (code != CURLE_OK)
    throw HttpFailure(may_be_sent(easy, question), fmt::format("{}: {}", question.url, curl_easy_strerror(code)));
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer.status);
  return answer;
}

struct HttpStream::Handle {
  HttpQuestion question;
  CurlHeaders headers;
  std::string begun;  // lines not yet taken
  CurlEasy easy = make_easy();
  CurlMulti multi{curl_multi_init()};

  ~Handle() { curl_multi_remove_handle(multi.get(), easy.get()); }
};

HttpStream::HttpStream(const HttpQuestion& question) : handle_(std::make_unique<Handle>()) {
  handle_->question = question;
  handle_->headers = headers_of(question);
  CURL* easy = handle_->easy.get();
  set_question(easy, handle_->question, handle_->headers, handle_->begun);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, std::max(1L, static_cast<long>(question.timeout.count())));
  curl_multi_add_handle(handle_->multi.get(), easy);
}

HttpStream::~HttpStream() = default;

std::optional<std::string> HttpStream::next_line(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (true) {
    int running = 0;
    const CURLMcode code = curl_multi_perform(handle_->multi.get(), &running);
    if (const auto end = handle_->begun.find('\n'); end != std::string::npos) {
      std::string line = handle_->begun.substr(0, end);
      handle_->begun.erase(0, end + 1);
      return line;
    }
    if (code != CURLM_OK || running == 0) {
      int left = 0;
      const CURLMsg* message = curl_multi_info_read(handle_->multi.get(), &left);
      throw HttpFailure(true, fmt::format("{}: {}", handle_->question.url,
                                          message != nullptr && message->data.result != CURLE_OK
                                              ? curl_easy_strerror(message->data.result)
                                              : "the stream has ended"));
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return {};
    curl_multi_poll(handle_->multi.get(), nullptr, 0, static_cast<int>(std::min<std::int64_t>(left.count(), 60000)),
                    nullptr);
  }
}

}  // namespace trifold
