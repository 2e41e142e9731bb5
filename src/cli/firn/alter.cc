// Schema, partition spec, sort order, properties and format version.
#include <fmt/ranges.h>

#include "cli/firn/metadata_change.h"
#include "cli/firn/schema_text.h"

namespace firn::cli {
namespace {

using iceberg::ColumnPlace;
using iceberg::NewColumn;
using iceberg::SchemaUpdate;
using iceberg::SpecChange;
using iceberg::TableMetadata;

struct PlaceArguments {
  bool first = false;
  std::string before, after;
};

void add_place(CLI::App* command, PlaceArguments& place) {
  command->add_flag("--first", place.first, "Before all others");
  command->add_option("--before", place.before, "Before this sibling")->transform(parse_name);
  command->add_option("--after", place.after, "After this sibling")->transform(parse_name);
}

std::optional<ColumnPlace> place_of(const PlaceArguments& place) {
  if (int{place.first} + int{!place.before.empty()} + int{!place.after.empty()} > 1) {
    throw CLI::ValidationError("--first, --before and --after exclude each other");
  }
  if (place.first) return ColumnPlace::first();
  if (!place.before.empty()) return ColumnPlace::before(place.before);
  if (!place.after.empty()) return ColumnPlace::after(place.after);
  return std::nullopt;
}

// One struct serves all: each command has the options that it needs.
struct AlterArguments {
  ChangeArguments common;
  std::string name, new_name, type, parent, doc, term;
  std::optional<std::string> default_text;
  PlaceArguments place;
  bool required = false, allow_incompatible = false, drop = false;
  std::vector<std::string> words;
  int32_t version = 0;
};

void commit_schema(const AlterArguments& arguments, const std::string& what,
                   const std::function<void(SchemaUpdate&)>& edit) {
  iceberg::SchemaUpdateOptions options;
  options.allow_incompatible = arguments.allow_incompatible;
  commit_change(arguments.common, what,
                [&](TableMetadata& metadata) { return update_schema(metadata, edit, options); });
}

void add_column(const AlterArguments& arguments) {
  NewColumn column;
  std::vector<std::string> names = parse_name_path(arguments.name);
  column.name = names.back();
  names.pop_back();  // what is left names a struct
  if (!arguments.parent.empty()) names.insert(names.begin(), arguments.parent);
  column.parent = fmt::format("{}", fmt::join(names, "."));
  column.type = parse_type(arguments.type);
  column.required = arguments.required;
  column.doc = arguments.doc;
  column.place = place_of(arguments.place).value_or(ColumnPlace::last());
  if (arguments.default_text) column.initial_default = parse_default(*arguments.default_text, *column.type);
  commit_schema(arguments, fmt::format("column {} added", arguments.name),
                [&](SchemaUpdate& schema) { schema.add_column(column); });
}

void drop_column(const AlterArguments& arguments) {
  commit_schema(arguments, fmt::format("column {} dropped", arguments.name),
                [&](SchemaUpdate& schema) { schema.drop_column(arguments.name); });
}

void rename_column(const AlterArguments& arguments) {
  commit_schema(arguments, fmt::format("column {} renamed to {}", arguments.name, arguments.new_name),
                [&](SchemaUpdate& schema) { schema.rename_column(arguments.name, arguments.new_name); });
}

void move_column(const AlterArguments& arguments) {
  const ColumnPlace place = place_of(arguments.place).value_or(ColumnPlace::last());
  commit_schema(arguments, fmt::format("column {} moved", arguments.name),
                [&](SchemaUpdate& schema) { schema.move_column(arguments.name, place); });
}

void promote_column(const AlterArguments& arguments) {
  const iceberg::TypePtr type = parse_type(arguments.type);
  commit_schema(arguments, fmt::format("column {} has type {}", arguments.name, type->to_string()),
                [&](SchemaUpdate& schema) { schema.promote_column(arguments.name, type); });
}

void make_optional(const AlterArguments& arguments) {
  commit_schema(arguments, fmt::format("column {} is optional", arguments.name),
                [&](SchemaUpdate& schema) { schema.make_optional(arguments.name); });
}

void make_required(const AlterArguments& arguments) {
  commit_schema(arguments, fmt::format("column {} is required", arguments.name), [&](SchemaUpdate& schema) {
    try {
      schema.make_required(arguments.name);
    } catch (const Error& e) {
      if (arguments.allow_incompatible || e.kind() != ErrorKind::invalid_argument) throw;
      throw Error(e.kind(), fmt::format("{} (--allow-incompatible)", e.what()));
    }
  });
}

void set_doc(const AlterArguments& arguments) {
  const std::string what = arguments.doc.empty() ? "has no documentation" : "is documented";
  commit_schema(arguments, fmt::format("column {} {}", arguments.name, what),
                [&](SchemaUpdate& schema) { schema.set_doc(arguments.name, arguments.doc); });
}

void set_default(const AlterArguments& arguments) {
  if (arguments.default_text.has_value() == arguments.drop) {
    throw CLI::ValidationError("give the default of new rows, or --drop to take it away");
  }
  const std::string what = arguments.drop ? fmt::format("column {} has no write default", arguments.name)
                                          : fmt::format("column {} has its write default", arguments.name);
  commit_schema(arguments, what, [&](SchemaUpdate& schema) {
    const iceberg::Field* field = schema.schema().find_field(arguments.name);
    std::optional<iceberg::Value> value;
    // An unknown column is set_write_default's to refuse.
    if (arguments.default_text && field) value = parse_default(*arguments.default_text, *field->type);
    schema.set_write_default(arguments.name, value);
  });
}

void set_identifier(const AlterArguments& arguments) {
  if (arguments.words.empty() != arguments.drop) throw CLI::ValidationError("name the columns, or --drop for none");
  commit_schema(arguments,
                arguments.drop ? "the table has no identifier columns"
                               : fmt::format("the identifier is {}", fmt::join(arguments.words, ", ")),
                [&](SchemaUpdate& schema) { schema.set_identifier_fields(arguments.words); });
}

void commit_spec(const AlterArguments& arguments, const std::string& what, const SpecChange& change) {
  commit_change(arguments.common, what, [&](TableMetadata& metadata) { return update_spec(metadata, change); });
}

void add_partition(const AlterArguments& arguments) {
  SpecChange change;
  for (const iceberg::PartitionDeclaration& term : parse_partitions({arguments.term})) {
    change.add.push_back({.column = term.column, .transform = term.transform, .name = arguments.name});
  }
  if (change.add.size() != 1) throw CLI::ValidationError("one partition field at a time");
  commit_spec(arguments, fmt::format("partition field {} added", arguments.term), change);
}

void drop_partition(const AlterArguments& arguments) {
  SpecChange change;
  change.remove = {arguments.term};
  commit_spec(arguments, fmt::format("partition field {} dropped", arguments.term), change);
}

void rename_partition(const AlterArguments& arguments) {
  SpecChange change;
  change.rename = {{.name = arguments.name, .new_name = arguments.new_name}};
  commit_spec(arguments, fmt::format("partition field {} renamed to {}", arguments.name, arguments.new_name), change);
}

void set_sort(const AlterArguments& arguments) {
  if (arguments.words.empty() != arguments.drop)
    throw CLI::ValidationError("name the order's terms, or --drop for none");
  const std::vector<iceberg::SortBy> terms = parse_sort(arguments.words);
  commit_change(arguments.common,
                arguments.drop ? "the table has no sort order"
                               : fmt::format("the sort order is {}", fmt::join(arguments.words, ", ")),
                [&](TableMetadata& metadata) { return set_sort_order(metadata, terms); });
}

void set_properties(const AlterArguments& arguments) {
  const auto properties = parse_pairs(arguments.words, "property");
  commit_change(arguments.common, fmt::format("{} set", fmt::join(arguments.words, ", ")),
                [&](TableMetadata& metadata) { return update_properties(metadata, properties, {}); });
}

void unset_properties(const AlterArguments& arguments) {
  std::vector<std::string> known;  // of those named, what the table has
  const auto table = open_table(arguments.common.table)->load().metadata;
  for (const std::string& key : arguments.words) {
    if (table->properties.contains(key)) known.push_back(key);
  }
  std::string absent;
  for (const std::string& key : arguments.words) {
    if (!table->properties.contains(key)) absent += (absent.empty() ? "" : ", ") + key;
  }
  commit_change(
      arguments.common,
      fmt::format("{} unset{}", fmt::join(known, ", "),
                  absent.empty() ? "" : fmt::format("; there was no property {}", absent)),
      [&](TableMetadata& metadata) { return update_properties(metadata, {}, arguments.words); },
      "the table has no property " + absent);
}

void upgrade(const AlterArguments& arguments) {
  commit_change(arguments.common, fmt::format("the format version is {}", arguments.version),
                [&](TableMetadata& metadata) { return upgrade_format_version(metadata, arguments.version); });
}

class AlterCommands {
 public:
  explicit AlterCommands(CLI::App* alter) : alter_(alter) {}

  CLI::App* add(const std::string& name, const std::string& about, const std::string& example,
                void (*run)(const AlterArguments&)) {
    command_ = alter_->add_subcommand(name, about);
    command_->footer("Example: firn alter " + example);
    arguments_ = &run_with<AlterArguments>(command_, run);
    add_change_options(command_, arguments_->common);
    return command_;
  }
  AlterArguments& arguments() { return *arguments_; }
  CLI::App* add_of_column(const std::string& name, const std::string& about, const std::string& example,
                          void (*run)(const AlterArguments&)) {
    add(name, about, example, run);
    command_->add_option("COLUMN", arguments_->name, "A column; fields of structs as a.b")
        ->transform(parse_name)
        ->required();
    return command_;
  }

 private:
  CLI::App* alter_;
  CLI::App* command_ = nullptr;
  AlterArguments* arguments_ = nullptr;
};

void add_column_commands(AlterCommands& commands) {
  CLI::App* adding =
      commands.add("add-column", "Add a column", "add-column local:nyc.flights gate string --after dest", add_column);
  AlterArguments& added = commands.arguments();
  adding->add_option("NAME", added.name, "Its name; address.country is the field country of the struct address")
      ->required();
  adding
      ->add_option("TYPE", added.type,
                   "long, decimal(9,2), list<string>, struct<x: int>, …, or the specification's JSON")
      ->required();
  adding->add_option("--in", added.parent, "The struct that gets it, instead of the table")->transform(parse_name);
  adding->add_option("--doc", added.doc, "What it is");
  adding->add_option("--default", added.default_text, "What rows have that are there already (version 3)");
  adding->add_flag("--required", added.required, "Never null; needs a default");
  adding->add_flag("--allow-incompatible", added.allow_incompatible, "Required even without a default");
  add_place(adding, added.place);

  commands.add_of_column("drop-column", "Drop a column", "drop-column local:nyc.flights gate", drop_column);

  commands
      .add_of_column("rename-column", "Rename a column", "rename-column local:nyc.flights gate departure_gate",
                     rename_column)
      ->add_option("NEW_NAME", commands.arguments().new_name, "Its own new name, without its struct's")
      ->transform(parse_name)
      ->required();

  CLI::App* moving =
      commands.add_of_column("move-column", "Move a column among its siblings; to the end without a place",
                             "move-column local:nyc.flights gate --first", move_column);
  add_place(moving, commands.arguments().place);

  commands
      .add_of_column("promote-column", "Give a column a wider type", "promote-column local:nyc.flights delay long",
                     promote_column)
      ->add_option("TYPE", commands.arguments().type, "The wider type")
      ->required();

  commands.add_of_column("make-optional", "Let a column be null", "make-optional local:nyc.flights gate",
                         make_optional);
  commands
      .add_of_column("make-required", "Let a column never be null",
                     "make-required local:nyc.flights gate --allow-incompatible", make_required)
      ->add_flag("--allow-incompatible", commands.arguments().allow_incompatible,
                 "Though rows that are there may have nulls, and then fail to be read");
  commands
      .add_of_column("set-doc", "Say what a column is", "set-doc local:nyc.flights gate \"where it left\"", set_doc)
      ->add_option("TEXT", commands.arguments().doc, "What it is; \"\" for nothing");

  CLI::App* defaulting = commands.add_of_column("set-default", "Set what new rows have that say nothing (version 3)",
                                                "set-default local:nyc.flights gate A1", set_default);
  defaulting->add_option("VALUE", commands.arguments().default_text, "As scan prints it");
  defaulting->add_flag("--drop", commands.arguments().drop, "Null again");

  CLI::App* identifying = commands.add("set-identifier", "Name the columns that tell rows apart",
                                       "set-identifier local:nyc.planes tailnum", set_identifier);
  identifying->add_option("COLUMN", commands.arguments().words, "Required columns")->transform(parse_name);
  identifying->add_flag("--drop", commands.arguments().drop, "None");
}

void add_layout_commands(AlterCommands& commands) {
  CLI::App* adding = commands.add("add-partition", "Add a field to the partition spec",
                                  "add-partition local:nyc.flights \"bucket(16, carrier)\"", add_partition);
  adding->add_option("TERM", commands.arguments().term, "\"day(ts)\", \"bucket(16, id)\", \"country\"")->required();
  adding->add_option("--name", commands.arguments().name, "Of the field; without it ts_day and the like");

  commands
      .add("drop-partition", "Take a field out of the partition spec", "drop-partition local:nyc.flights \"day(ts)\"",
           drop_partition)
      ->add_option("FIELD", commands.arguments().term, "Its name, or its term")
      ->required();

  CLI::App* renaming = commands.add("rename-partition", "Rename a field of the partition spec",
                                    "rename-partition local:nyc.flights ts_day departure_day", rename_partition);
  renaming->add_option("FIELD", commands.arguments().name, "Its name")->required();
  renaming->add_option("NEW_NAME", commands.arguments().new_name, "Its new name")->required();

  CLI::App* sorting = commands.add("set-sort", "Set the order that rows are written in",
                                   "set-sort local:nyc.flights dest \"ts desc\"", set_sort);
  sorting->add_option("TERM", commands.arguments().words, "\"ts\", \"ts desc\", \"bucket(16, id) nulls last\"");
  sorting->add_flag("--drop", commands.arguments().drop, "No order");

  commands.add("set-properties", "Set table properties", "set-properties local:nyc.flights owner=me", set_properties)
      ->add_option("KEY=VALUE", commands.arguments().words, "One or more")
      ->required();
  commands
      .add("unset-properties", "Take table properties away", "unset-properties local:nyc.flights owner",
           unset_properties)
      ->add_option("KEY", commands.arguments().words, "One or more")
      ->required();
  commands.add("upgrade", "Raise the format version; it never goes down again", "upgrade local:nyc.flights 3", upgrade)
      ->add_option("VERSION", commands.arguments().version, "2 or 3")
      ->check(CLI::IsMember({2, 3}))
      ->required();
}

}  // namespace

void add_alter_command(CLI::App& app) {
  CLI::App* alter =
      add_command(app, kChanging, "alter", "Change columns, partitioning, sort order, properties, format version",
                  "alter add-column local:nyc.flights gate string");
  alter->require_subcommand(1);
  AlterCommands commands(alter);
  add_column_commands(commands);
  add_layout_commands(commands);
}

}  // namespace firn::cli
