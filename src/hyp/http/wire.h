// What travels between a forward sink and a receiver (P11), in one place for both sides.
//
//   POST /v1/ingest/<dataset>    Authorization: Bearer <token>   X-Hyp-Batch-Id   X-Hyp-Stream   X-Hyp-Open
//                                X-Hyp-Seq-Range: <since>,<until>[;start|;reset=<last>]   Content-Encoding: zstd | gzip
//     202 {"rows": n}                the rows and their place in the stream are durable
//     409 {"error", "kind", "last"}  destination_behind: `last` is the open's, as a decimal string; null: it has none;
//                                    destination_forgot (P10.7): `last` is null
//     400, 422 {"error", "line"}     that line is no row, and never will be; nothing of the batch was taken. (A row
//                                    that fits no table has a 202, and is a reject of the receiver's flush.)
//     400 {"error"}                  the request is wrong in itself; no row is to blame
//     401, 403, 404, 413, 429 and 503 (with Retry-After)
//   GET /v1/streams/<stream>     200 {"opens": {"<openId>": "<last>", …}, "forgot": "<number>" | null}
//                                what the receiver has of the stream, no opens if nothing
//     Both with X-Hyp-Receiver: an id that it has under every address; not while a request is refused before its stream
//     is looked at.
//
// Without X-Hyp-Stream a POST is capture (P4).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace firn::hyp {

inline constexpr const char* kIngestPath = "/v1/ingest/";
inline constexpr const char* kStreamsPath = "/v1/streams/";
inline constexpr const char* kBatchIdHeader = "X-Hyp-Batch-Id";
inline constexpr const char* kStreamHeader = "X-Hyp-Stream";
inline constexpr const char* kOpenHeader = "X-Hyp-Open";
inline constexpr const char* kSeqRangeHeader = "X-Hyp-Seq-Range";
inline constexpr const char* kReceiverHeader = "X-Hyp-Receiver";

// Rows (since, until] of one open. since == until, without rows, only in a reset: the open's last number becomes
// `until` if it is `*reset` (P10.6).
struct SeqRange {
  int64_t since = 0, until = 0;
  bool start = false;            // the first of its open: `since` is the open's first number less one
  std::optional<int64_t> reset;  // the last number that the sender knows the receiver to have
  bool operator==(const SeqRange&) const = default;
};
std::string to_text(const SeqRange& range);
// Throws invalid_argument saying what is wrong: numbers beyond int64, since above until, since == until without reset,
// a reset with since != until, both marks.
SeqRange parse_seq_range(std::string_view text);

// The id that one body always has (P11.1): SHA-256 in hex over signal, stream, open, range and body. The whole range,
// not its `since` alone: the same rows may be sent again for a longer range, once those behind them were purged, and
// empty bodies differ in nothing else.
std::string batch_id_of(std::string_view signal, std::string_view stream, std::string_view open_id,
                        const SeqRange& range, std::string_view body);

}  // namespace firn::hyp
