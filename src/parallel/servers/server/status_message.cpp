#include "parallel/servers/server/status_message.h"

#include <utility>

namespace trifold {

Message message_of(const ServerStatus& status, std::uint64_t id) {
  nlohmann::json slices = nlohmann::json::array();
  for (const SliceStatus& slice : status.slices)
    slices.push_back({{"slice", slice.slice},
                      {"epoch", slice.epoch},
                      {"version", slice.version},
                      {"applied", slice.applied},
                      {"cuts", slice.cuts}});
  return {.kind = MessageKind::status_answer,
          .fields = {{"id", id},
                     {"server", status.server},
                     {"ids", status.ids},
                     {"epoch", status.epoch},
                     {"view", status.view},
                     {"settled", status.settled},
                     {"safe", status.safe},
                     {"slices", std::move(slices)}}};
}

ServerStatus status_from(const Message& answer) {
  const nlohmann::json& fields = answer.fields;
  ServerStatus status{.server = fields.at("server"),
                      .ids = fields.at("ids").get<std::vector<std::string>>(),
                      .epoch = fields.at("epoch"),
                      .view = fields.at("view"),
                      .settled = fields.at("settled"),
                      .safe = fields.at("safe")};
  for (const nlohmann::json& slice : fields.at("slices"))
    status.slices.push_back({.slice = slice.at("slice"),
                             .epoch = slice.at("epoch"),
                             .version = slice.at("version"),
                             .applied = slice.at("applied").get<std::vector<std::int64_t>>(),
                             .cuts = slice.at("cuts").get<std::vector<std::int64_t>>()});
  return status;
}

}  // namespace trifold
