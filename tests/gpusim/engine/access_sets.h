// A set of operations in four bytes, one for each cell of memory: nearly always empty or one operation; when several
// are not ordered among themselves, the number of a shared set in a table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/operations.h"

namespace gpusim {

class AccessSet {
 public:
  enum class Kind { plain, atomic };
  struct Member {
    OperationId id = 0;
    Kind kind = Kind::plain;
  };
  static constexpr OperationId kLargestId = (1u << 30) - 1;

  AccessSet() = default;
  explicit AccessSet(Member member) : bits_(encode(member)) {}

  bool is_only(OperationId id) const { return (bits_ & ~kAtomic) == id; }  // in either kind
  bool is_only(Member member) const { return bits_ == encode(member); }

  template <class Visit>
  void for_each(const Visit& visit) const {
    if (bits_ == 0) return;
    if (bits_ & kIsTableNumber) {
      for (const std::uint32_t bits : members_of_table_set(bits_ & ~kIsTableNumber)) visit(decode(bits));
    } else {
      visit(decode(bits_));
    }
  }

  // The members that `keep` wants, and `added`, which replaces itself unless it was there as plain.
  template <class Keep>
  AccessSet filtered_with(Member added, const Keep& keep) const {
    if (bits_ == 0) return AccessSet(added);
    std::vector<std::uint32_t> members;
    for_each([&](Member member) {
      if (member.id == added.id) {
        if (member.kind == Kind::plain) added.kind = Kind::plain;
      } else if (keep(member.id)) {
        members.push_back(encode(member));
      }
    });
    if (members.empty()) return AccessSet(added);
    members.push_back(encode(added));
    std::sort(members.begin(), members.end());
    AccessSet set;
    set.bits_ = kIsTableNumber | number_of_table_set(members);
    return set;
  }

 private:
  static constexpr std::uint32_t kIsTableNumber = 1u << 31;
  static constexpr std::uint32_t kAtomic = 1u << 30;
  static std::uint32_t encode(Member member) { return member.id | (member.kind == Kind::atomic ? kAtomic : 0); }
  static Member decode(std::uint32_t bits) { return {bits & kLargestId, bits & kAtomic ? Kind::atomic : Kind::plain}; }
  static const std::vector<std::uint32_t>& members_of_table_set(std::uint32_t number);
  static std::uint32_t number_of_table_set(const std::vector<std::uint32_t>& members);

  std::uint32_t bits_ = 0;
};

}  // namespace gpusim
