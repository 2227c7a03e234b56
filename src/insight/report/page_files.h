// The files of the report's page, as the build put them into the program: d3, our scripts, our styles and the frame
// they go into. Without d3 at build time there is no page.
#pragma once

#include <string_view>

namespace trifold {

struct PageFiles {
  std::string_view frame;   // report.html, with {{places}} for the rest
  std::string_view style;   // all of page/*.css
  std::string_view script;  // all of page/**/*.js, main.js last
  std::string_view d3;
};

// Throws an input error that says what to install where the build had no d3.
PageFiles page_files();

}  // namespace trifold
