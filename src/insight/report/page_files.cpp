#include "insight/report/page_files.h"

#include "core/error.h"

#ifdef TRIFOLD_PAGE

// CMakeLists.txt joins our files into page.js and page.css; the assembler takes each as it is.
#define TRIFOLD_EMBED(name, file)         \
  asm(".section .rodata\n"                \
      ".global trifold_" #name            \
      "\n"                                \
      "trifold_" #name                    \
      ":\n"                               \
      ".incbin \"" file                   \
      "\"\n"                              \
      ".global trifold_" #name            \
      "_end\n"                            \
      "trifold_" #name                    \
      "_end:\n"                           \
      ".byte 0\n"                         \
      ".previous\n");                     \
  extern "C" const char trifold_##name[]; \
  extern "C" const char trifold_##name##_end[]

TRIFOLD_EMBED(page_html, TRIFOLD_PAGE "/report.html");
TRIFOLD_EMBED(page_css, TRIFOLD_PAGE "/page.css");
TRIFOLD_EMBED(page_js, TRIFOLD_PAGE "/page.js");
TRIFOLD_EMBED(d3_js, TRIFOLD_PAGE "/d3.min.js");

namespace trifold {

PageFiles page_files() {
  return {.frame = {trifold_page_html, trifold_page_html_end},
          .style = {trifold_page_css, trifold_page_css_end},
          .script = {trifold_page_js, trifold_page_js_end},
          .d3 = {trifold_d3_js, trifold_d3_js_end}};
}

}  // namespace trifold

#else

namespace trifold {

PageFiles page_files() {
  fail_input(
      "this build has no d3, so it cannot draw reports: install the package node-d3 (tools/setup does) and build again "
      "after 'cmake --preset release'");
}

}  // namespace trifold

#endif
