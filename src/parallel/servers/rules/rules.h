// The rules, each made by its file; aggregation.cpp has them by name.
#pragma once

#include "parallel/servers/rules/aggregation.h"

namespace trifold {

std::unique_ptr<AggregationRule> make_mean(const AggregationArgs& args);
std::unique_ptr<AggregationRule> make_weighted_mean(const AggregationArgs& args);
std::unique_ptr<AggregationRule> make_sign_vote(const AggregationArgs& args);
std::unique_ptr<AggregationRule> make_median(const AggregationArgs& args);
std::unique_ptr<AggregationRule> make_trimmed_mean(const AggregationArgs& args);
std::unique_ptr<AggregationRule> make_krum(const AggregationArgs& args);

}  // namespace trifold
