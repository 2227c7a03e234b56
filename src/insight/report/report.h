// report.html: one file that shows one or several runs, with all it needs inside.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace trifold {

// JSON that may stand inside a <script> element, whatever its strings hold.
std::string script_safe(const nlohmann::ordered_json& json);

std::string html_escaped(std::string_view text);

// The whole page of {"runs": [run_data(..), ..]}.
std::string report_page(const nlohmann::ordered_json& data);

// Writes the page of these folders. Needs a build with d3.
void write_report(std::span<const std::filesystem::path> folders, const std::filesystem::path& out);

// The end of a command: RUN/report.html where the build can draw. Says why not instead of failing a run that is done.
void write_report_of(const std::filesystem::path& folder);

}  // namespace trifold
