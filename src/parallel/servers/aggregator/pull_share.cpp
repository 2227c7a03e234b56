#include "parallel/servers/aggregator/pull_share.h"

#include <algorithm>
#include <set>

#include "parallel/servers/client/request.h"

namespace trifold {

std::vector<int> PullShare::ask(const Asker& asker, std::int64_t clock, const std::vector<int>& slices) {
  std::vector<int> unasked;
  for (const int slice : slices) {
    const Values& kept = kept_[static_cast<std::size_t>(slice)];
    if (kept.clock == clock) {
      answer(asker, slice, kept);
      continue;
    }
    const auto [asked, first] = asked_.try_emplace({clock, slice});
    if (first) unasked.push_back(slice);
    if (std::ranges::count(asked->second, asker) == 0) asked->second.push_back(asker);
  }
  return unasked;
}

void PullShare::answered(std::int64_t clock, int slice, Payload values, std::int64_t oldest) {
  const Values news{.clock = clock, .oldest = oldest, .bytes = std::move(values)};
  if (const auto asked = asked_.find({clock, slice}); asked != asked_.end()) {
    for (const Asker& asker : asked->second) answer(asker, slice, news);
    asked_.erase(asked);
  }
  // One who repeats an earlier clock, in place of a worker that is lost, is alone with it.
  Values& kept = kept_[static_cast<std::size_t>(slice)];
  if (clock > kept.clock) kept = news;
}

void PullShare::answer(const Asker& asker, int slice, const Values& values) {
  Answered& answered = answers_[asker];
  answered.slices.push_back(slice);
  answered.oldest.push_back(values.oldest);
  answered.values.push_back(values.bytes);
}

std::vector<Asker> PullShare::refused(std::int64_t clock, const std::vector<int>& slices) {
  std::set<Asker> askers;
  for (const int slice : slices) {
    const auto asked = asked_.find({clock, slice});
    if (asked == asked_.end()) continue;
    askers.insert(asked->second.begin(), asked->second.end());
    asked_.erase(asked);
  }
  return {askers.begin(), askers.end()};
}

std::vector<PullShare::Answer> PullShare::take_answers() {
  std::vector<Answer> answers;
  for (const auto& [asker, answered] : std::exchange(answers_, {})) {
    std::vector<std::size_t> sizes;
    for (const Payload& values : answered.values) sizes.push_back(values.size());
    answers.push_back(
        {.to = asker.from,
         .message = {
             .kind = MessageKind::pull_answer,
             .fields = {{"id", asker.id}, {"slices", answered.slices}, {"sizes", sizes}, {"oldest", answered.oldest}},
             .payload = join(answered.values)}});
  }
  return answers;
}

void PullShare::forget() {
  std::ranges::fill(kept_, Values{});
}

}  // namespace trifold
