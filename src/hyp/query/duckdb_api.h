// DuckDB's C API (1.5), as far as firn uses it: the library comes without its header.
#pragma once

#include <cstddef>
#include <cstdint>

struct ArrowSchema;
struct ArrowArray;

extern "C" {

using idx_t = uint64_t;
enum duckdb_state { DuckDBSuccess = 0, DuckDBError = 1 };
enum duckdb_pending_state {
  DUCKDB_PENDING_READY = 0,
  DUCKDB_PENDING_NOT_READY = 1,
  DUCKDB_PENDING_ERROR = 2,
  DUCKDB_PENDING_NO_TASKS = 3
};
enum duckdb_statement_type { DUCKDB_STATEMENT_SELECT = 1, DUCKDB_STATEMENT_EXPLAIN = 4 };

using duckdb_database = struct duckdb_database_object*;
using duckdb_connection = struct duckdb_connection_object*;
using duckdb_config = struct duckdb_config_object*;
using duckdb_prepared_statement = struct duckdb_prepared_statement_object*;
using duckdb_extracted_statements = struct duckdb_extracted_statements_object*;
using duckdb_pending_result = struct duckdb_pending_result_object*;
using duckdb_logical_type = struct duckdb_logical_type_object*;
using duckdb_data_chunk = struct duckdb_data_chunk_object*;
using duckdb_vector = struct duckdb_vector_object*;
using duckdb_value = struct duckdb_value_object*;
using duckdb_table_function = struct duckdb_table_function_object*;
using duckdb_bind_info = struct duckdb_bind_info_object*;
using duckdb_init_info = struct duckdb_init_info_object*;
using duckdb_function_info = struct duckdb_function_info_object*;
using duckdb_replacement_scan_info = struct duckdb_replacement_scan_info_object*;
using duckdb_error_data = struct duckdb_error_data_object*;
using duckdb_arrow_options = struct duckdb_arrow_options_object*;
using duckdb_arrow_converted_schema = struct duckdb_arrow_converted_schema_object*;

struct duckdb_result {
  idx_t deprecated_column_count;
  idx_t deprecated_row_count;
  idx_t deprecated_rows_changed;
  void* deprecated_columns;
  char* deprecated_error_message;
  void* internal_data;
};

using duckdb_delete_callback_t = void (*)(void* data);
using duckdb_table_function_bind_t = void (*)(duckdb_bind_info info);
using duckdb_table_function_init_t = void (*)(duckdb_init_info info);
using duckdb_table_function_t = void (*)(duckdb_function_info info, duckdb_data_chunk output);
using duckdb_replacement_callback_t = void (*)(duckdb_replacement_scan_info info, const char* table_name, void* data);

duckdb_state duckdb_create_config(duckdb_config* out_config);
duckdb_state duckdb_set_config(duckdb_config config, const char* name, const char* option);
void duckdb_destroy_config(duckdb_config* config);
duckdb_state duckdb_open_ext(const char* path, duckdb_database* out_database, duckdb_config config, char** out_error);
void duckdb_close(duckdb_database* database);
duckdb_state duckdb_connect(duckdb_database database, duckdb_connection* out_connection);
void duckdb_disconnect(duckdb_connection* connection);
void duckdb_interrupt(duckdb_connection connection);
void duckdb_free(void* pointer);

idx_t duckdb_extract_statements(duckdb_connection connection, const char* query,
                                duckdb_extracted_statements* out_statements);
const char* duckdb_extract_statements_error(duckdb_extracted_statements statements);
duckdb_state duckdb_prepare_extracted_statement(duckdb_connection connection, duckdb_extracted_statements statements,
                                                idx_t index, duckdb_prepared_statement* out_statement);
void duckdb_destroy_extracted(duckdb_extracted_statements* statements);
duckdb_state duckdb_prepare(duckdb_connection connection, const char* query, duckdb_prepared_statement* out_statement);
const char* duckdb_prepare_error(duckdb_prepared_statement statement);
int duckdb_prepared_statement_type(duckdb_prepared_statement statement);
duckdb_state duckdb_bind_varchar(duckdb_prepared_statement statement, idx_t index, const char* value);
duckdb_state duckdb_execute_prepared(duckdb_prepared_statement statement, duckdb_result* out_result);
void duckdb_destroy_prepare(duckdb_prepared_statement* statement);
duckdb_state duckdb_pending_prepared_streaming(duckdb_prepared_statement statement, duckdb_pending_result* out_result);
duckdb_state duckdb_execute_pending(duckdb_pending_result pending, duckdb_result* out_result);
const char* duckdb_pending_error(duckdb_pending_result pending);
void duckdb_destroy_pending(duckdb_pending_result* pending);

const char* duckdb_result_error(duckdb_result* result);
void duckdb_destroy_result(duckdb_result* result);
idx_t duckdb_column_count(duckdb_result* result);
const char* duckdb_column_name(duckdb_result* result, idx_t column);
duckdb_logical_type duckdb_column_logical_type(duckdb_result* result, idx_t column);
char* duckdb_value_varchar(duckdb_result* result, idx_t column, idx_t row);
duckdb_data_chunk duckdb_fetch_chunk(duckdb_result result);

duckdb_logical_type duckdb_create_logical_type(int type);
void duckdb_destroy_logical_type(duckdb_logical_type* type);
idx_t duckdb_vector_size();
void duckdb_destroy_data_chunk(duckdb_data_chunk* chunk);
duckdb_vector duckdb_data_chunk_get_vector(duckdb_data_chunk chunk, idx_t column);
void duckdb_data_chunk_set_size(duckdb_data_chunk chunk, idx_t size);
duckdb_logical_type duckdb_vector_get_column_type(duckdb_vector vector);
void duckdb_vector_reference_vector(duckdb_vector to, duckdb_vector from);

duckdb_value duckdb_create_varchar(const char* text);
char* duckdb_get_varchar(duckdb_value value);
void duckdb_destroy_value(duckdb_value* value);

duckdb_table_function duckdb_create_table_function();
void duckdb_destroy_table_function(duckdb_table_function* function);
void duckdb_table_function_set_name(duckdb_table_function function, const char* name);
void duckdb_table_function_add_parameter(duckdb_table_function function, duckdb_logical_type type);
void duckdb_table_function_set_extra_info(duckdb_table_function function, void* extra_info,
                                          duckdb_delete_callback_t destroy);
void duckdb_table_function_set_bind(duckdb_table_function function, duckdb_table_function_bind_t bind);
void duckdb_table_function_set_init(duckdb_table_function function, duckdb_table_function_init_t init);
void duckdb_table_function_set_local_init(duckdb_table_function function, duckdb_table_function_init_t init);
void duckdb_table_function_set_function(duckdb_table_function function, duckdb_table_function_t work);
void duckdb_table_function_supports_projection_pushdown(duckdb_table_function function, bool pushdown);
duckdb_state duckdb_register_table_function(duckdb_connection connection, duckdb_table_function function);

void* duckdb_bind_get_extra_info(duckdb_bind_info info);
duckdb_value duckdb_bind_get_parameter(duckdb_bind_info info, idx_t index);
void duckdb_bind_add_result_column(duckdb_bind_info info, const char* name, duckdb_logical_type type);
void duckdb_bind_set_bind_data(duckdb_bind_info info, void* data, duckdb_delete_callback_t destroy);
void duckdb_bind_set_cardinality(duckdb_bind_info info, idx_t cardinality, bool is_exact);
void duckdb_bind_set_error(duckdb_bind_info info, const char* error);
void* duckdb_init_get_bind_data(duckdb_init_info info);
void duckdb_init_set_init_data(duckdb_init_info info, void* data, duckdb_delete_callback_t destroy);
idx_t duckdb_init_get_column_count(duckdb_init_info info);
idx_t duckdb_init_get_column_index(duckdb_init_info info, idx_t column);
void duckdb_init_set_max_threads(duckdb_init_info info, idx_t threads);
void duckdb_init_set_error(duckdb_init_info info, const char* error);
void* duckdb_function_get_bind_data(duckdb_function_info info);
void* duckdb_function_get_init_data(duckdb_function_info info);
void* duckdb_function_get_local_init_data(duckdb_function_info info);
void duckdb_function_set_error(duckdb_function_info info, const char* error);

void duckdb_add_replacement_scan(duckdb_database database, duckdb_replacement_callback_t replacement, void* data,
                                 duckdb_delete_callback_t destroy);
void duckdb_replacement_scan_set_function_name(duckdb_replacement_scan_info info, const char* name);
void duckdb_replacement_scan_add_parameter(duckdb_replacement_scan_info info, duckdb_value parameter);
void duckdb_replacement_scan_set_error(duckdb_replacement_scan_info info, const char* error);

bool duckdb_error_data_has_error(duckdb_error_data error);
const char* duckdb_error_data_message(duckdb_error_data error);
void duckdb_destroy_error_data(duckdb_error_data* error);
duckdb_arrow_options duckdb_result_get_arrow_options(duckdb_result* result);
void duckdb_destroy_arrow_options(duckdb_arrow_options* options);
duckdb_error_data duckdb_to_arrow_schema(duckdb_arrow_options options, duckdb_logical_type* types, const char** names,
                                         idx_t count, ArrowSchema* out_schema);
duckdb_error_data duckdb_data_chunk_to_arrow(duckdb_arrow_options options, duckdb_data_chunk chunk,
                                             ArrowArray* out_array);
duckdb_error_data duckdb_schema_from_arrow(duckdb_connection connection, ArrowSchema* schema,
                                           duckdb_arrow_converted_schema* out_schema);
duckdb_error_data duckdb_data_chunk_from_arrow(duckdb_connection connection, ArrowArray* array,
                                               duckdb_arrow_converted_schema schema, duckdb_data_chunk* out_chunk);
void duckdb_destroy_arrow_converted_schema(duckdb_arrow_converted_schema* schema);

}  // extern "C"

inline constexpr int DUCKDB_TYPE_VARCHAR = 17;
