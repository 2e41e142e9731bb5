// By which a receiver tells a batch that comes again from another one under the same id (P11.2).
#pragma once

#include <string>
#include <string_view>

namespace firn::hyp {

// 128 bits (XXH3), in hex. Not against forgery, of which there is none to fear: a batch's id and bytes are its
// sender's, and ours has the body's SHA-256 in the id. Many times as fast as one more SHA-256 over each body.
std::string body_digest(std::string_view body);

}  // namespace firn::hyp
