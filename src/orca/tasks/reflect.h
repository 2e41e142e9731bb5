// The fields of a struct, in order: named by ORCA_FIELDS, else by position (Boost.PFR).
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>

#include <boost/pfr.hpp>

// ORCA_FIELDS(Loaded, month, rows) beside struct Loaded, in its namespace, names every field in order: Loaded is then
// an object in JSON ({"month": …, "rows": …}) instead of an array.
#define ORCA_FIELDS(TYPE, ...)                                                    \
  [[maybe_unused]] constexpr auto orca_fields(const TYPE*) {                      \
    using OrcaFieldsType = TYPE;                                                  \
    return std::make_tuple(ORCA_INTERNAL_EACH(ORCA_INTERNAL_FIELD, __VA_ARGS__)); \
  }                                                                               \
  static_assert(true, "")

#define ORCA_INTERNAL_FIELD(NAME) \
  ::firn::orca::FieldOf<decltype(&OrcaFieldsType::NAME)> { #NAME, &OrcaFieldsType::NAME }
#define ORCA_INTERNAL_PARENS ()
#define ORCA_INTERNAL_EXPAND(...) ORCA_INTERNAL_EXPAND3(ORCA_INTERNAL_EXPAND3(ORCA_INTERNAL_EXPAND3(__VA_ARGS__)))
#define ORCA_INTERNAL_EXPAND3(...) ORCA_INTERNAL_EXPAND2(ORCA_INTERNAL_EXPAND2(ORCA_INTERNAL_EXPAND2(__VA_ARGS__)))
#define ORCA_INTERNAL_EXPAND2(...) ORCA_INTERNAL_EXPAND1(ORCA_INTERNAL_EXPAND1(ORCA_INTERNAL_EXPAND1(__VA_ARGS__)))
#define ORCA_INTERNAL_EXPAND1(...) __VA_ARGS__
#define ORCA_INTERNAL_EACH(MACRO, ...) __VA_OPT__(ORCA_INTERNAL_EXPAND(ORCA_INTERNAL_EACH_STEP(MACRO, __VA_ARGS__)))
#define ORCA_INTERNAL_EACH_STEP(MACRO, FIRST, ...) \
  MACRO(FIRST) __VA_OPT__(, ORCA_INTERNAL_EACH_AGAIN ORCA_INTERNAL_PARENS(MACRO, __VA_ARGS__))
#define ORCA_INTERNAL_EACH_AGAIN() ORCA_INTERNAL_EACH_STEP

namespace firn::orca {

template <class Member>
struct FieldOf {
  const char* name;
  Member member;
};

template <class T>
concept NamedFields = requires { orca_fields(static_cast<const T*>(nullptr)); };

template <class T>
concept PlainAggregate = std::is_aggregate_v<T> && std::is_class_v<T> && !NamedFields<T>;

// Structs that cross by their fields.
template <class T>
concept Reflected = NamedFields<T> || PlainAggregate<T>;

template <class T>
constexpr size_t field_count() {
  if constexpr (NamedFields<T>) {
    return std::tuple_size_v<decltype(orca_fields(static_cast<const T*>(nullptr)))>;
  } else {
    return boost::pfr::tuple_size_v<T>;
  }
}

// Calls visit(name, field) for each field in order; name is nullptr where fields have none.
template <class T, class Visit>
void each_field(T& value, Visit&& visit) {
  using Plain = std::remove_const_t<T>;
  if constexpr (NamedFields<Plain>) {
    if constexpr (std::is_aggregate_v<Plain>) {
      static_assert(field_count<Plain>() == boost::pfr::tuple_size_v<Plain>, "ORCA_FIELDS does not name every field");
    }
    std::apply([&](const auto&... field) { (visit(field.name, value.*(field.member)), ...); },
               orca_fields(static_cast<const Plain*>(nullptr)));
  } else {
    boost::pfr::for_each_field(value, [&](auto& field) { visit(static_cast<const char*>(nullptr), field); });
  }
}

}  // namespace firn::orca
