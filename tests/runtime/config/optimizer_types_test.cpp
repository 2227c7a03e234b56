// The optimisers as they are declared: each field is read into one member, and written as it was read.
#include "runtime/config/optimizer_types.h"

#include <set>

#include <gtest/gtest.h>

namespace trifold {
namespace {

TEST(OptimizerTypes, AreFoundByNameAndKind) {
  std::set<std::string> names;
  for (const OptimizerType& type : optimizer_types()) {
    EXPECT_TRUE(names.insert(type.name).second) << type.name << " is declared twice";
    EXPECT_EQ(&optimizer_type(type.kind), &type) << type.name;
    EXPECT_EQ(&optimizer_type(type.name), &type) << type.name;
    EXPECT_TRUE(type.noun.ends_with(type.name + " optimizer")) << type.noun;
  }
}

// A value that is no default comes back from its own field, and from no other.
TEST(OptimizerTypes, EveryFieldIsAMemberOfItsOwn) {
  for (const OptimizerType& type : optimizer_types())
    for (const OptimizerField& changed : type.fields) {
      SCOPED_TRACE(type.name + "." + changed.field.name);
      const FieldValues defaults = defaults_of(fields_of(type));
      FieldValues values = defaults;
      if (changed.field.kind == FieldKind::boolean)
        values.set(changed.field.name, !values.boolean(changed.field.name));
      else
        values.set(changed.field.name, values.number(changed.field.name) / 2 + 0.125);
      const OptimizerArgs args = optimizer_args(type, values);
      EXPECT_EQ(args.kind, type.kind);
      for (const OptimizerField& field : type.fields) {
        const FieldValue& expected = values.all().find(field.field.name)->second;
        EXPECT_EQ(value_of(field, args), expected) << field.field.name;
        EXPECT_EQ(field.field.name != changed.field.name, expected == defaults.all().find(field.field.name)->second);
      }
    }
}

TEST(OptimizerTypes, DefaultsAreTheirOwn) {
  const auto defaults = [](OptimizerKind kind) {
    const OptimizerType& type = optimizer_type(kind);
    return optimizer_args(type, defaults_of(fields_of(type)));
  };
  EXPECT_EQ(defaults(OptimizerKind::sgd).momentum, 0);
  EXPECT_EQ(defaults(OptimizerKind::lars).momentum, 0.9);
  EXPECT_EQ(defaults(OptimizerKind::adam).eps, 1e-8);
  EXPECT_EQ(defaults(OptimizerKind::adagrad).eps, 1e-10);
  EXPECT_TRUE(optimizer_type(OptimizerKind::lars).needs_parameter_norms);
  EXPECT_FALSE(optimizer_type(OptimizerKind::adamw).needs_parameter_norms);
}

}  // namespace
}  // namespace trifold
