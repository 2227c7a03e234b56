// trifold layers: every layer type with its fields, from the same declarations that jobs are checked against.
#include <fmt/format.h>

#include "commands.h"
#include "layers/layer.h"

namespace trifold {
namespace {

std::string text_of(const FieldValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* pair = std::get_if<Pair>(&value))
    return (*pair)[0] == (*pair)[1] ? std::to_string((*pair)[0]) : fmt::format("[{}, {}]", (*pair)[0], (*pair)[1]);
  return "a list";
}

void print_layers() {
  for (const auto& [name, type] : layer_types()) {
    fmt::print("{:<24}{}\n", name, type.help);
    for (const Field& field : type.fields) {
      const std::string fallback = field.fallback   ? "default " + text_of(*field.fallback)
                                   : field.optional ? "optional"
                                                    : "required";
      fmt::print("  {:<22}{}{}{}\n", field.name, fallback, field.help.empty() ? "" : "; ", field.help);
    }
  }
}

}  // namespace

void add_layers_command(CLI::App& app) {
  app.add_subcommand("layers", "lists the layer types and their fields")->callback(print_layers);
}

}  // namespace trifold
