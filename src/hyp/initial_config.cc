#include "hyp/config.h"

namespace firn::hyp {

// Every line that begins with "//>" is an example: without that mark the whole is a configuration too.
std::string initial_config_text() {
  return R"json(// Configuration of hyp. Comments and trailing commas are fine. Relative paths start at this file's folder.
// What is commented out shows the default, or an example where its line begins with "//>".
{
  // Where captured rows are kept until they are shipped and their retention ends, and where sinks remember what they shipped.
  "cacheRoot": ".hyp/cache",
  "stateDir": ".hyp/state",

  // What is known of datasets beforehand. Others are made as rows arrive, unless "undeclaredDatasets" is false.
  "undeclaredDatasets": true,
  "datasets": {
    // A column that is found in the rows has the type that its first flush shows, for good: numbers are long, or double
    // where any of them has a fraction; times are strings unless "primaryTimestampColumn" names theirs. Declare what
    // should be otherwise before the first rows come.
    //> "requests": {
    //>   // Types as Iceberg spells them: boolean, int, long, float, double, decimal(9,2), date, time, timestamp, timestamptz,
    //>   // string, uuid, binary, fixed[16], list<long>, map<string, string>, struct<a: int, b: string>. Or as a list:
    //>   // [{"name": "id", "type": "long", "required": true}]. Left out, columns are found in the rows and added as they come.
    //>   "columns": {
    //>     "time": "timestamptz",
    //>     "id": {"type": "long", "required": true},
    //>     "path": "string",
    //>     "amount": "decimal(9,2)",
    //>     "tags": "list<string>",
    //>     "client": "struct<host: string, port: int>",
    //>   },
    //>   // Whether rows may bring columns that are not declared; with "columns" only if said.
    //>   "additionalColumns": true,
    //>   // Rows age by it; archives are partitioned by its day, if this is said before they are made. Times are ISO 8601
    //>   // strings; a number in a timestamptz column is taken as microseconds since 1970, and rejected if it looks like
    //>   // another unit.
    //>   "primaryTimestampColumn": "time",
    //>   // How cache tables are partitioned; archives are sorted by the identity columns.
    //>   "cachePartitioning": {"iceberg": {"fields": [{"column": "path", "transform": "identity"}]}},
    //>   // Its value chooses the partition "source=…"; otherwise the name of what captured the row does.
    //>   "sourceColumn": "path",
    //>   // What is other here than "retention" below says for all datasets. "days": null keeps rows for ever.
    //>   "retention": {"days": 30, "waitForSinkAck": true},
    //>   // Of equal rows compaction keeps the first; left out: all of them.
    //>   "dedupe": "content",
    //>   // A longer line is rejected.
    //>   "maxRowBytes": 8388608,
    //> },
  },

  // Rows older than "defaultDays" leave the cache; null: they stay for ever. Age is by the dataset's
  // "primaryTimestampColumn", by the time of ingest where there is none. With "waitForSinkAck" a row stays until every
  // sink that ships its dataset has it, but no longer than "graceDays" more; what goes before a sink has it is counted,
  // and told by `hyp status`.
  "retention": {"defaultDays": null, "waitForSinkAck": false, "graceDays": 7},

  // Where rows are shipped, each once. "schedule" is cron's (minute hour day month weekday, in UTC); without it only
  // `hyp sink run` ships. "datasets" left out: all of them. One unit (object or snapshot) has at most "maxRows" and "maxBytes".
  "sinks": [
    //> {
    //>   "name": "objects", "type": "blob", "path": "objects",
    //>   "format": "parquet",      // or "jsonl"
    //>   "compression": "zstd",    // parquet: zstd, snappy, gzip, lz4, brotli, none; jsonl: zstd, gzip, none
    //>   "schedule": "*/5 * * * *",
    //>   "maxRows": 1000000, "maxBytes": 268435456,
    //>   "queryable": true,        // a query of the datasets reads what was shipped from here (Parquet alone), also rows
    //>                             // that the cache no longer has; of several such sinks the first one
    //> },
    //> {
    //>   "name": "archive", "type": "iceberg", "path": "warehouse", "namespace": "hyp",   // warehouse/hyp/<dataset>
    //>   "datasets": ["requests"],
    //>   "schedule": "@hourly",
    //>   "queryable": true,
    //> },
    //> {
    //>   // To the receiver (`hyp serve`) of another cache. Here "maxRows" and "maxBytes" bound one request: its rows, and its
    //>   // bytes before compression.
    //>   "name": "upstream", "type": "forward", "url": "https://receiver.example.com:4748",
    //>   "tokenFile": "upstream.token",        // or "tokenEnv": "HYP_UPSTREAM_TOKEN"; `hyp gateway add` there prints it
    //>   "caFile": "ca.pem",                   // left out: the authorities that the system trusts
    //>   "proxy": "http://proxy.example.com:3128",   // left out: as https_proxy, http_proxy and no_proxy say
    //>   "compression": "zstd",                // or "none"
    //>   "schedule": "* * * * *",
    //>   "maxRows": 10000, "maxBytes": 4194304,
    //>   "maxParallel": 4,                     // partitions at once; for sinks of every type
    //> },
  ],

  // Files whose appended lines the daemon picks up (as does `hyp collect`), through rotation too. "dataset" left out: the
  // name. The name is also the source.
  "collect": [
    //> {"name": "nginx", "dataset": "requests", "glob": "/var/log/nginx/*.json"},
  ],

  // The daemon's HTTP address, "" for none: POST http://127.0.0.1:4747/v1/ingest/<dataset> takes rows as NDJSON, one object
  // a line; X-Hyp-Batch-Id makes a repeated request harmless. The token is what requests must bring as "Authorization:
  // Bearer …" (none: no authentication).
  "listen": "127.0.0.1:4747",
  //> "tokenFile": "token",       // or "tokenEnv": "HYP_TOKEN"

  // `hyp serve` receives what other caches' forward sinks send, each sender with the token that `hyp gateway add NAME` gave.
  // With this section, datasets whose columns are declared have the gateway's column, too.
  //> "receiver": {
  //>   "listen": "127.0.0.1:4748",
  //>   "certFile": "cert.pem", "keyFile": "key.pem",   // TLS; left out: none, for this machine or a proxy before it
  //>   "gatewayColumn": "hyp_gateway",   // the name of who sent the row
  //>   // One body may have "maxBodyBytes", as sent and decompressed (413), all at once "maxQueuedBytes" (503). One gateway
  //>   // may send so much a second (429); 0: no limit.
  //>   "maxBodyBytes": 16777216,
  //>   "maxQueuedBytes": 268435456,
  //>   "maxConnections": 1024,
  //>   "maxRequestsPerSecond": 0,
  //>   "maxBytesPerSecond": 0,
  //>   "maxStreamsPerGateway": 10000,   // each source partition of each cache that sends is one; more are refused (409)
  //>   // How long a request's head may take, the whole of it, and a connection may say nothing.
  //>   "headerTimeoutMs": 10000,
  //>   "requestTimeoutMs": 120000,
  //>   "idleTimeoutMs": 60000,
  //>   "accessLog": "access.log",   // a JSON line for each request; left out: none
  //> },

  // Captured rows are moved into the cache tables so often, or once there are so many bytes of them. Beyond "maxSpoolBytes"
  // capture refuses rows rather than fill the disk. So it does while all that is below "cacheRoot" takes more than
  // "maxCacheBytes" (0: no limit): no row is dropped to make room for another.
  "flushIntervalMs": 10000,
  "flushBytes": 67108864,
  "maxSpoolBytes": 8589934592,
  "maxCacheBytes": 0,

  // How often the daemon looks after the cache, as `hyp maintain` does: retention, then compaction of the partitions that
  // need it most. One does that has at least "minFiles" small files, or more than "maxMetadataBytes" of metadata; its rows
  // are written anew in files of "targetFileBytes", within "maxMemoryBytes" of memory. After "tickBudgetMs" no further one
  // is begun before the next time.
  "maintainIntervalMs": 60000,
  "compaction": {
    "targetFileBytes": 134217728,
    "minFiles": 16,
    "maxMetadataBytes": 16777216,
    "maxMemoryBytes": 268435456,
    "tickBudgetMs": 30000,
  },

  // Spans of what hyp does, as OTLP/JSON lines.
  //> "traceFile": "trace.jsonl",
}
)json";
}

}  // namespace firn::hyp
