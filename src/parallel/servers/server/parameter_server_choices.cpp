// What a server does where its rule chooses among whole models: it says what is here of a round, and completes it by
// whom was chosen.
#include <algorithm>

#include "parallel/servers/server/parameter_server.h"

namespace trifold {

void ParameterServer::begin_choices() {
  if (!args_.rule->needs_distances()) return;
  std::vector<std::string> owners;
  for (std::size_t i = 0; i < view_.servers.size(); ++i)
    if (std::ranges::find(places_, static_cast<int>(i), &SlicePlace::primary) != places_.end())
      owners.push_back(view_.servers[i].id);
  RoundProtocol::Args args{.mailbox = args_.mailbox,
                           .epoch = epoch_,
                           .self = args_.id,
                           .rule = args_.rule.get(),
                           .rules = &args_.rules,
                           .owners = std::move(owners)};
  if (self_ != 0) args.first = peer_of(view_.servers.front());
  rounds_ = std::make_unique<RoundProtocol>(std::move(args));
}

void ParameterServer::follow_choices() {
  if (!rounds_) return;
  while (true) {
    if (rounds_->wants_to_look() && missing_.empty()) {
      std::vector<const ServedSlice*> slices;
      for (const auto& [slice, owned] : owned_) slices.push_back(&owned.slice);
      rounds_->look(slices);
    }
    const std::optional<RoundChoice> choice = rounds_->news();
    if (!choice) return;
    for (auto& [slice, owned] : owned_)
      if (owned.slice.choose(*choice)) changed(slice);
    rounds_->pushes_came();  // those of the next clock may be here
  }
}

}  // namespace trifold
