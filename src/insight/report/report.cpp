#include "insight/report/report.h"

#include <spdlog/spdlog.h>

#include "core/error.h"
#include "insight/report/page_files.h"
#include "insight/report/run_data.h"
#include "runtime/checkpoint/atomic_file.h"

namespace trifold {
namespace {

using ReportJson = nlohmann::ordered_json;

// `frame` with each {{place}} filled. What is put in is not looked into again.
std::string fill(std::string_view frame, std::span<const std::pair<std::string_view, std::string_view>> places) {
  std::string page;
  while (!frame.empty()) {
    const std::size_t begin = frame.find("{{");
    const std::size_t end = begin == frame.npos ? frame.npos : frame.find("}}", begin);
    page += frame.substr(0, begin);
    if (end == frame.npos) break;
    const std::string_view name = frame.substr(begin + 2, end - begin - 2);
    for (const auto& [place, text] : places)
      if (place == name) page += text;
    frame.remove_prefix(end + 2);
  }
  return page;
}

std::string title_of(const ReportJson& data) {
  std::string title;
  for (const ReportJson& run : data.at("runs")) title += (title.empty() ? "" : ", ") + run.value("name", "run");
  return title + " - Trifold";
}

}  // namespace

std::string script_safe(const ReportJson& json) {
  // Names of files and layers may not be UTF-8: they are shown with marks instead of ending the report.
  const std::string text = json.dump(-1, ' ', /*ensure_ascii=*/false, ReportJson::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  // '<' is found in strings only; without it neither "</script" nor "<!--" can be.
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

std::string html_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string report_page(const ReportJson& data) {
  const PageFiles files = page_files();
  const std::string title = html_escaped(title_of(data));
  const std::string json = script_safe(data);
  const std::pair<std::string_view, std::string_view> places[] = {
      {"title", title}, {"style", files.style}, {"d3", files.d3}, {"data", json}, {"script", files.script}};
  return fill(files.frame, places);
}

void write_report(std::span<const std::filesystem::path> folders, const std::filesystem::path& out) {
  (void)page_files();  // says what is missing before anything is read
  ReportJson data = {{"runs", ReportJson::array()}};
  for (const std::filesystem::path& folder : folders) data["runs"].push_back(run_data(folder));
  write_file_atomically(out, report_page(data));
}

void write_report_of(const std::filesystem::path& folder) {
  try {
    write_report(std::span(&folder, 1), folder / "report.html");
  } catch (const std::exception& error) {
    spdlog::warn("no report.html: {}", error.what());
  }
}

}  // namespace trifold
