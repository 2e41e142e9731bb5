// Precompiled once for all of firn: the large headers of other libraries, none of our own.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <arrow/api.h>
#include <arrow/io/api.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

// What is made of templates here is not made again in each source: JSON is most of that.
inline void firn_pch_instantiate(nlohmann::ordered_json& json) {
  json = nlohmann::ordered_json::parse(std::string());
  json = nlohmann::ordered_json::parse(std::string_view());
  json["key"] = nlohmann::ordered_json::array({std::string(), "", 0, int64_t{0}, uint64_t{0}, 0.0, true, nullptr});
  json[std::string()] = nlohmann::ordered_json::object();
  json[0].push_back(nlohmann::ordered_json{{"key", json.at("key").get<std::string>()}});
  for (const auto& [key, value] : json.items()) json[key] = value.get<int64_t>();
  for (auto& value : json) value = value.get<bool>() || value == json || value != json || value == "" || value == 0;
  json = json.dump() + json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  json = json.value("key", std::string()) + std::to_string(json.get<int32_t>() + json.get<double>());
  json = json.contains("key") || json.contains(std::string()) || json.find("key") == json.end();
  json = std::vector<std::string>{std::to_string(json.get<std::vector<std::string>>().size())};
}
