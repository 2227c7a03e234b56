#include "parallel/servers/client/push_groups.h"

#include <utility>

namespace trifold {

bool PushGroup::takes(const PushGroup& other) const {
  const Request& push = other.request_;
  return request_.shard == push.shard && request_.clock == push.clock && request_.weight == push.weight &&
         request_.rate == push.rate;
}

void PushGroup::append(PushGroup other) {
  const std::size_t before = bytes_.size();
  bytes_.insert(bytes_.end(), other.bytes_.begin(), other.bytes_.end());
  checksum_.add(other.bytes_);
  for (const std::size_t end : other.ends_) ends_.push_back(before + end);
  for (SliceWork& work : other.request_.work) request_.work.push_back(std::move(work));
}

Request PushGroup::close() && {
  request_.encodings = pool_->own(std::move(bytes_));
  request_.encodings.set_checksum(checksum_.value());
  std::size_t begin = 0;
  for (std::size_t i = 0; i < ends_.size(); ++i) {
    request_.work[i].encoded = request_.encodings.part(begin, ends_[i] - begin);
    begin = ends_[i];
  }
  return std::move(request_);
}

void PushGroups::add(int server, PushGroup group, std::size_t enough, std::vector<Request>& go) {
  const auto found = waiting_.find(server);
  if (found == waiting_.end()) {
    if (group.size() >= enough)
      go.push_back(std::move(group).close());
    else
      waiting_.emplace(server, std::move(group));
    return;
  }
  if (found->second.takes(group))
    found->second.append(std::move(group));
  else
    go.push_back(std::exchange(found->second, std::move(group)).close());
  if (found->second.size() < enough) return;
  go.push_back(std::move(found->second).close());
  waiting_.erase(found);
}

void PushGroups::close_all(std::vector<Request>& go) {
  for (auto& [server, group] : waiting_) go.push_back(std::move(group).close());
  waiting_.clear();
}

}  // namespace trifold
