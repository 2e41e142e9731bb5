#include "hyp/capture/ingest.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "hyp/capture/line_blocks.h"
#include "support/crash.h"
#include "support/temp_folder.h"

namespace firn::hyp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void write_text(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }
void append_text(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::app | std::ios::binary) << text;
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(::deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(::deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(::ZSTD_compressBound(text.size()), '\0');
  out.resize(::ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

// All text in the cache's spools, in order.
std::string spooled(const std::string& root, const std::string& dataset = "d") {
  std::string text;
  for (const std::string& folder : list_spools(root)) {
    SpoolReader reader(folder, {});
    while (const auto at = reader.next()) {
      if (at->frame.dataset == dataset) text += at->frame.text;
    }
  }
  return text;
}

// A descriptor that gives `text` to its end, as a pipe does.
class Pipe {
 public:
  explicit Pipe(const std::string& text) {
    int ends[2];
    if (::pipe(ends) != 0) fail_errno(errno, "pipe");
    read_end_ = Descriptor(ends[0]);
    writer_ = std::thread([text, end = ends[1]] {
      for (size_t at = 0; at < text.size();) {
        const ssize_t count = ::write(end, text.data() + at, text.size() - at);
        if (count <= 0) break;
        at += static_cast<size_t>(count);
      }
      ::close(end);
    });
  }
  ~Pipe() {
    read_end_ = Descriptor();
    writer_.join();
  }
  int fd() const { return read_end_.get(); }

 private:
  Descriptor read_end_;
  std::thread writer_;
};

std::string lines(int from, int to) {
  std::string text;
  for (int i = from; i < to; ++i) text += fmt::format("{{\"n\":{}}}\n", i);
  return text;
}

CaptureOptions to_d() {
  CaptureOptions options;
  options.dataset = "d";
  return options;
}

CaptureReport ingest_text(Spool& spool, const std::string& text, const CaptureOptions& options) {
  const Pipe pipe(text);
  return ingest_pipe(spool, pipe.fd(), options);
}

TEST(IngestFile, IsTakenOnceAndThenOnlyWhatWasAppended) {
  TempFolder root;
  const std::string path = root / "in.ndjson";
  write_text(path, lines(0, 3) + "\n");
  const auto spool = Spool::open(root.path());
  const CaptureReport first = ingest_file(*spool, path, to_d());
  EXPECT_EQ(first.lines, 3);
  EXPECT_EQ(first.bytes, static_cast<int64_t>(lines(0, 3).size()) + 1);
  EXPECT_EQ(first.lines_skipped, 0);
  const CaptureReport second = ingest_file(*spool, path, to_d());
  EXPECT_EQ(second.lines, 0);
  EXPECT_EQ(second.lines_skipped, 4);
  append_text(path, lines(3, 5));
  std::filesystem::rename(path, root / "renamed");
  EXPECT_EQ(ingest_file(*spool, root / "renamed", to_d()).lines, 2);
  EXPECT_EQ(spooled(root.path()), lines(0, 3) + "\n" + lines(3, 5));
  SpoolReader reader(spool->folder(), {});
  EXPECT_EQ(reader.next()->frame.first_line, 1);
  EXPECT_TRUE(reader.next()->frame.position.done);
  const auto appended = reader.next();
  EXPECT_EQ(appended->frame.first_line, 5);
  EXPECT_EQ(appended->frame.position.lines, 6);
}

TEST(IngestFile, AnEmptyFileIsNoLinesAndMayGrow) {
  TempFolder root;
  write_text(root / "in", "");
  const auto spool = Spool::open(root.path());
  EXPECT_EQ(ingest_file(*spool, root / "in", to_d()).lines, 0);
  append_text(root / "in", lines(0, 2));
  EXPECT_EQ(ingest_file(*spool, root / "in", to_d()).lines, 2);
  append_text(root / "in", lines(2, 1000));
  EXPECT_EQ(ingest_file(*spool, root / "in", to_d()).lines, 998);
  EXPECT_EQ(ingest_file(*spool, root / "in", to_d()).lines, 0);
  EXPECT_EQ(spooled(root.path()), lines(0, 1000));
}

TEST(IngestFile, ALastLineWithoutNewlineIsALine) {
  TempFolder root;
  write_text(root / "in", "{\"n\":0}\n{\"n\":1}");
  const auto spool = Spool::open(root.path());
  EXPECT_EQ(ingest_file(*spool, root / "in", to_d()).lines, 2);
  EXPECT_EQ(spooled(root.path()), lines(0, 2));
}

TEST(IngestFile, ALastLineThatIsNotWholeYetWaitsForTheRest) {
  TempFolder root;
  write_text(root / "in", "{\"n\":0}\n{\"n\":");
  const auto spool = Spool::open(root.path());
  const CaptureReport first = ingest_file(*spool, root / "in", to_d());
  EXPECT_EQ(first.lines, 1);
  EXPECT_EQ(first.torn_bytes, 5);
  EXPECT_EQ(ingest_file(*spool, root / "in", to_d()).lines, 0);
  append_text(root / "in", "1}\n{\"n\":2}\n");
  const CaptureReport second = ingest_file(*spool, root / "in", to_d());
  EXPECT_EQ(second.lines, 2);
  EXPECT_EQ(second.torn_bytes, 0);
  EXPECT_EQ(spooled(root.path()), lines(0, 3));
}

TEST(IngestFile, AFileInTheInodeOfARemovedOneIsAnotherEvenIfItBeginsTheSame) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  write_text(root / "monday", "{\"event\":\"start\"}\n");
  EXPECT_EQ(ingest_file(*spool, root / "monday", to_d()).lines, 1);
  std::filesystem::remove(root / "monday");
  write_text(root / "tuesday", "{\"event\":\"start\"}\n{\"event\":\"stop\"}\n");
  EXPECT_EQ(ingest_file(*spool, root / "tuesday", to_d()).lines, 2);
}

TEST(IngestFile, OneThatWasCutOrReplacedIsANewSource) {
  TempFolder root;
  const std::string path = root / "in";
  write_text(path, lines(0, 10));
  const auto spool = Spool::open(root.path());
  ingest_file(*spool, path, to_d());
  write_text(path, lines(0, 4));  // the same inode and head, but shorter
  EXPECT_EQ(ingest_file(*spool, path, to_d()).lines, 4);
  EXPECT_EQ(ingest_file(*spool, path, to_d()).lines, 0);
  write_text(path, lines(500, 520));  // longer, with another head
  EXPECT_EQ(ingest_file(*spool, path, to_d()).lines, 20);
  EXPECT_EQ(ingest_file(*spool, path, to_d()).lines, 0);
  CaptureOptions other = to_d();
  other.dataset = "e";
  EXPECT_EQ(ingest_file(*spool, path, other).lines, 20);  // another dataset takes it for itself
}

TEST(IngestFile, BigFilesAreCutAtLineEndsAndLongLinesKeptWhole) {
  TempFolder root;
  std::string text = lines(0, 200'000);
  text += "{\"s\":\"" + std::string(3 << 20, 'x') + "\"}\n" + lines(0, 10);
  write_text(root / "in", text);
  const auto spool = Spool::open(root.path());
  EXPECT_EQ(ingest_file(*spool, root / "in", to_d()).lines, 200'011);
  EXPECT_EQ(spooled(root.path()), text);
  SpoolReader reader(spool->folder(), {});
  int num_frames = 0;
  int64_t next_line = 1;
  while (const auto at = reader.next()) {
    ++num_frames;
    EXPECT_EQ(at->frame.first_line, next_line);
    next_line = at->frame.position.lines + 1;
    EXPECT_TRUE(at->frame.text.empty() || at->frame.text.ends_with('\n'));
  }
  EXPECT_GE(num_frames, 4);
}

TEST(IngestFile, OfALineAboveTheLimitEnoughIsKeptToRejectIt) {
  TempFolder root;
  std::string long_line(10 << 20, 'x');
  for (size_t at = 4998; at + 1 < long_line.size(); at += 2) long_line.replace(at, 2, "ü");  // 5001 ends inside of one
  write_text(root / "in", lines(0, 2) + long_line + "\n" + lines(2, 4));
  const auto spool = Spool::open(root.path());
  CaptureOptions options = to_d();
  options.row_bytes_max = 5000;
  EXPECT_EQ(ingest_file(*spool, root / "in", options).lines, 5);
  EXPECT_EQ(ingest_file(*spool, root / "in", options).lines, 0);
  const std::string text = spooled(root.path());
  EXPECT_LT(text.size(), 2U << 20);
  std::istringstream in(text);
  std::vector<std::string> kept;
  for (std::string line; std::getline(in, line);) kept.push_back(line);
  ASSERT_EQ(kept.size(), 5U);
  EXPECT_EQ(kept[4], "{\"n\":3}");
  EXPECT_GT(kept[2].size(), 5000U);
  const auto cut = find_cut(kept[2]);
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->text, long_line.substr(0, 5000)) << "whole characters";
  EXPECT_EQ(cut->bytes, 10 << 20);
}

TEST(IngestFile, GzipAndZstdAreToldByTheirBytes) {
  TempFolder root;
  const std::string text = lines(0, 100'000);
  write_text(root / "a", gzip(text));
  write_text(root / "b", zstd(text));
  // Members and frames in a row are one stream, lines across their border too.
  write_text(root / "c", gzip(text.substr(0, 1000)) + gzip("") + gzip(text.substr(1000)) + std::string(512, '\0'));
  write_text(root / "d", zstd(text.substr(0, 777)) + std::string("\x50\x2a\x4d\x18\x03\x00\x00\x00xyz", 11) +
                             zstd(text.substr(777)));
  const auto spool = Spool::open(root / "cache");
  for (const std::string name : {"a", "b", "c", "d"}) {
    CaptureOptions options = to_d();
    options.dataset = name;
    const CaptureReport report = ingest_file(*spool, root / name, options);
    EXPECT_EQ(report.lines, 100'000) << name;
    EXPECT_EQ(report.bytes, static_cast<int64_t>(text.size())) << name;
    EXPECT_EQ(ingest_file(*spool, root / name, options).lines, 0) << name;
    EXPECT_EQ(spooled(root / "cache", name), text) << name;
  }
}

TEST(IngestFile, DamagedCompressionKeepsTheGoodLinesBeforeIt) {
  TempFolder root;
  const std::string text = lines(0, 300'000);
  const std::string whole = gzip(text);
  for (const std::string& bytes :
       {whole.substr(0, whole.size() / 2),
        whole.substr(0, whole.size() / 2) + std::string(100, '\xff') + whole.substr(whole.size() / 2 + 100)}) {
    TempFolder cache;
    write_text(root / "in", bytes);
    const auto spool = Spool::open(cache.path());
    try {
      ingest_file(*spool, root / "in", to_d());
      ADD_FAILURE() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
      const std::string kept = spooled(cache.path());
      EXPECT_GT(kept.size(), 100'000U);
      EXPECT_TRUE(kept.ends_with('\n'));
      EXPECT_THAT(error.what(),
                  HasSubstr(fmt::format("up to line {} are kept", std::count(kept.begin(), kept.end(), '\n'))));
      if (bytes.size() < whole.size()) {
        EXPECT_THAT(text, StartsWith(kept));
      }
    }
  }
  // Mended, it goes on where it was.
  TempFolder cache;
  write_text(root / "in", whole.substr(0, whole.size() / 2));
  const auto spool = Spool::open(cache.path());
  EXPECT_THROW(ingest_file(*spool, root / "in", to_d()), Error);
  append_text(root / "in", whole.substr(whole.size() / 2));
  ingest_file(*spool, root / "in", to_d());
  EXPECT_EQ(spooled(cache.path()), text);
}

TEST(IngestFile, WhatCannotBeReadIsNamed) {
  TempFolder root;
  const auto spool = Spool::open(root / "cache");
  try {
    ingest_file(*spool, root / "absent", to_d());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::not_found);
    EXPECT_THAT(error.what(), HasSubstr("absent"));
  }
  EXPECT_THROW(ingest_file(*spool, root.path(), to_d()), Error);
}

TEST(IngestPipe, WithAnIdContinuesAfterWhatWasTaken) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  CaptureOptions options = to_d();
  options.id = "job";
  EXPECT_EQ(ingest_text(*spool, lines(0, 5), options).lines, 5);
  const CaptureReport again = ingest_text(*spool, lines(0, 8), options);
  EXPECT_EQ(again.lines, 3);
  EXPECT_EQ(again.lines_skipped, 5);
  EXPECT_EQ(ingest_text(*spool, gzip(lines(0, 9)), options).lines,
            1);  // the stream is what comes out of the compression
  EXPECT_EQ(spooled(root.path()), lines(0, 9));
  EXPECT_THROW(ingest_text(*spool, lines(0, 3), options), Error);
  options.id = "other";
  EXPECT_EQ(ingest_text(*spool, lines(0, 2), options).lines, 2);
  options.id = "";
  EXPECT_EQ(ingest_text(*spool, lines(0, 2), options).lines, 2);
  EXPECT_EQ(ingest_text(*spool, lines(0, 2), options).lines, 2);
}

TEST(IngestPipe, AnotherStreamUnderAUsedIdIsRefusedAndNotSkipped) {
  TempFolder root;
  CaptureOptions options = to_d();
  options.id = "job";
  const std::string torn = "{\"n\":";
  ingest_text(*Spool::open(root.path()), torn, options);  // nothing that tells the stream from another
  ingest_text(*Spool::open(root.path()), lines(0, 500), options);
  for (const std::string& other : {lines(1, 500), lines(1, 600), lines(5, 10)}) {
    try {
      ingest_text(*Spool::open(root.path()), other, options);
      ADD_FAILURE() << "it was taken";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("another stream"));
    }
  }
  options.id = "job:2";
  EXPECT_EQ(ingest_text(*Spool::open(root.path()), lines(1, 3), options).lines, 2);
  options.id = "job";
  EXPECT_EQ(ingest_text(*Spool::open(root.path()), lines(0, 501), options).lines, 1);
  EXPECT_EQ(spooled(root.path()), torn + "\n" + lines(0, 500) + lines(1, 3) + lines(500, 501));
}

TEST(IngestPipe, ALineThatItsSenderDidNotFinishIsTakenAgainWhole) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  CaptureOptions options = to_d();
  options.id = "job";
  ingest_text(*spool, "{\"n\":0}\n{\"n\":", options);
  ingest_text(*spool, "{\"n\":0}\n{\"n\":1}\n{\"n\":2}", options);
  ingest_text(*spool, "{\"n\":0}\n{\"n\":1}\n{\"n\":2}", options);
  EXPECT_EQ(spooled(root.path()), "{\"n\":0}\n{\"n\":\n{\"n\":1}\n{\"n\":2}\n");
}

TEST(IngestPipe, IsDurableAsItGoes) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Descriptor read_end(ends[0]);
  std::thread reader([&] { EXPECT_EQ(ingest_pipe(*spool, read_end.get(), to_d()).lines, 2); });
  ASSERT_EQ(::write(ends[1], "{\"n\":0}\n{\"n\":", 13), 13);
  for (int i = 0; i < 100 && spooled(root.path()).empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(spooled(root.path()), lines(0, 1));
  ASSERT_EQ(::write(ends[1], "1}\n", 3), 3);
  ::close(ends[1]);
  reader.join();
  EXPECT_EQ(spooled(root.path()), lines(0, 2));
}

TEST(IngestPipe, AtomicIsAllOrNothing) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  CaptureOptions options = to_d();
  options.atomic = true;
  const std::string damaged = gzip(lines(0, 100'000));
  EXPECT_THROW(ingest_text(*spool, damaged.substr(0, damaged.size() / 2), options), Error);
  EXPECT_EQ(spooled(root.path()), "");
  EXPECT_EQ(ingest_text(*spool, lines(0, 200'000), options).lines, 200'000);
  EXPECT_EQ(spooled(root.path()), lines(0, 200'000));
}

TEST(IngestPipe, ACancelledOneReportsWhatItTook) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const Descriptor read_end(ends[0]);
  const Descriptor write_end(ends[1]);
  std::atomic<bool> cancelled = false;
  CaptureOptions options = to_d();
  options.cancelled = &cancelled;
  options.progress = [&](const CaptureReport& report) { cancelled = report.lines > 0; };
  ASSERT_EQ(::write(write_end.get(), "{\"n\":0}\n{\"n\":", 13), 13);
  EXPECT_EQ(ingest_pipe(*spool, read_end.get(), options).lines, 1);
  EXPECT_EQ(spooled(root.path()), lines(0, 1));
}

TEST(IngestFile, WhereNoMoreIsToBeTakenWhatWasTakenStaysAndTheRestComesLater) {
  TempFolder root;
  const std::string file = root / "log";
  replace_file(file, lines(0, 200'000));
  const auto spool = Spool::open(root / "cache");
  CaptureOptions options = to_d();
  CaptureReport said;
  options.progress = [&](const CaptureReport& report) {
    said = report;
    fail(ErrorKind::busy, "the disk is full");
  };
  try {
    ingest_file(*spool, file, options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::busy) << error.what();
  }
  EXPECT_GT(said.lines, 0);
  EXPECT_LT(said.lines, 200'000);
  EXPECT_EQ(spooled(root / "cache"), lines(0, static_cast<int>(said.lines)));
  EXPECT_EQ(ingest_file(*spool, file, to_d()).lines, 200'000 - said.lines);
  EXPECT_EQ(spooled(root / "cache"), lines(0, 200'000));
}

TEST(IngestBody, ABatchIdIsTakenOnce) {
  TempFolder root;
  auto spool = Spool::open(root.path());
  EXPECT_EQ(ingest_body(*spool, lines(0, 3), "b1", to_d()).lines, 3);
  const CaptureReport again = ingest_body(*spool, lines(0, 3), "b1", to_d());
  EXPECT_EQ(again.lines, 0);
  EXPECT_EQ(again.lines_skipped, 3);
  spool->advance(spool->end());
  spool.reset();
  spool = Spool::open(root.path());
  EXPECT_EQ(ingest_body(*spool, lines(0, 3), "b1", to_d()).lines, 0);
  EXPECT_EQ(ingest_body(*spool, gzip(lines(3, 5)), "b2", to_d()).lines, 2);
  EXPECT_EQ(ingest_body(*spool, "", "b3", to_d()).lines, 0);
  EXPECT_EQ(ingest_body(*spool, "{\"n\":5}", "", to_d()).lines, 1);
  EXPECT_EQ(spooled(root.path()), lines(3, 6));
}

TEST(IngestBody, OfManyRequestsWithOneBatchIdOneIsTaken) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  std::atomic<int64_t> lines_taken = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i)
        lines_taken += ingest_body(*spool, lines(i, i + 1), fmt::format("b{}", i), to_d()).lines;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(lines_taken, 5);
  EXPECT_EQ(spooled(root.path()).size(), lines(0, 5).size());
}

TEST(IngestBody, ABatchIdThatWasUsedForAnotherBodyIsRefused) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  EXPECT_EQ(ingest_body(*spool, lines(0, 2), "b1", to_d()).lines, 2);
  for (const std::string& other : {lines(0, 3), lines(1, 3), lines(0, 1), std::string()}) {
    try {
      ingest_body(*spool, other, "b1", to_d());
      ADD_FAILURE() << other;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::already_exists) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("another body, of 2 lines"));
    }
  }
  EXPECT_EQ(ingest_body(*spool, gzip(lines(0, 2)), "b1", to_d()).lines_skipped, 2) << "the same rows, compressed anew";
  EXPECT_EQ(ingest_body(*spool, lines(2, 3), "b1:b2", to_d()).lines, 1) << "another id that begins like it";
  CaptureOptions other_source = to_d();
  other_source.source = "web";
  EXPECT_EQ(ingest_body(*spool, lines(3, 4), "b1", other_source).lines, 1);
  EXPECT_EQ(spooled(root.path()), lines(0, 4));
}

TEST(IngestBody, AJsonArrayIsRefusedAsAWhole) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  for (const std::string body : {"[{\"n\":0},{\"n\":1}]", "\n  [\n{\"n\":0}\n]\n"}) {
    EXPECT_THROW(ingest_body(*spool, body, "", to_d()), Error);
    EXPECT_THROW(ingest_body(*spool, body, "b1", to_d()), Error);
  }
  EXPECT_EQ(spooled(root.path()), "");
}

TEST(IngestBody, IsReadNoFurtherThanItMayBeLongEvenWithoutALineEnd) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  CaptureOptions options = to_d();
  options.body_bytes_max = 1 << 20;
  // The stream is damaged behind the limit: had it been read to its end, that would be the error.
  const std::string bomb = gzip(std::string(8 << 20, ' '));
  const std::string damaged = bomb.substr(0, bomb.size() - 8) + "damaged!";
  for (const std::string id : {"", "b1"}) {
    try {
      ingest_body(*spool, damaged, id, options);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::invalid_argument) << error.what();
    }
  }
}

TEST(IngestBody, OneTooLongOrDamagedLeavesNothing) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  CaptureOptions options = to_d();
  options.body_bytes_max = 1 << 20;
  EXPECT_THROW(ingest_body(*spool, gzip(lines(0, 300'000)), "b1", options), Error);
  EXPECT_THROW(ingest_body(*spool, gzip(lines(0, 10)).substr(0, 20), "b1", options), Error);
  EXPECT_EQ(spooled(root.path()), "");
  EXPECT_EQ(ingest_body(*spool, lines(0, 10), "b1", options).lines, 10);
}

TEST(IngestPipe, WaitingForAnotherOfTheSameIdCanBeCancelled) {
  TempFolder root;
  const auto spool = Spool::open(root.path());
  const auto claim = spool->claim_source("pipe:d:job");
  std::atomic<bool> cancelled = true;
  CaptureOptions options = to_d();
  options.id = "job";
  options.cancelled = &cancelled;
  try {
    ingest_text(*spool, "", options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::cancelled) << error.what();
  }
}

// --- killed at every fault point ---

void expect_each_line_once(const std::function<void(const std::string& root)>& work, const std::string& expected) {
  std::vector<std::string> points;
  {
    TempFolder root;
    points = fault_points_of([&] { work(root.path()); });
    ASSERT_EQ(spooled(root.path()), expected);
  }
  for (size_t i = 0; i < points.size(); ++i) {
    const Crash crash = i % 2 == 0 ? Crash::power : Crash::process;
    TempFolder root;
    run_killed_at(i, crash, [&] { work(root.path()); });
    ASSERT_EQ(run_in_child([&] { work(root.path()); }), 0) << i << " " << points[i];
    ASSERT_EQ(spooled(root.path()), expected)
        << (crash == Crash::power ? "power cut" : "killed") << " at " << i << ": " << points[i];
  }
}

// Lines of 100 kB, so that a few make several frames.
std::string long_lines() {
  std::string text;
  for (int i = 0; i < 25; ++i) text += fmt::format("{{\"n\":{},\"s\":\"{}\"}}\n", i % 7, std::string(100'000, 'x'));
  return text;
}

TEST(IngestCrash, AFileIsTakenOnceWhereverTheProcessDies) {
  TempFolder folder;
  const std::string text = long_lines();
  write_text(folder / "in", text);
  expect_each_line_once([&](const std::string& root) { ingest_file(*Spool::open(root), folder / "in", to_d()); }, text);
}

TEST(IngestCrash, APipeWithAnIdIsTakenOnceWhereverTheProcessDies) {
  TempFolder folder;
  const std::string text = long_lines();
  write_text(folder / "in", gzip(text));
  CaptureOptions options = to_d();
  options.id = "job";
  expect_each_line_once(
      [&](const std::string& root) {
        const Descriptor fd(::open((folder / "in").c_str(), O_RDONLY));
        ingest_pipe(*Spool::open(root), fd.get(), options);
      },
      text);
}

TEST(IngestCrash, AnAtomicPipeIsThereWholeOrNotAtAll) {
  TempFolder folder;
  const std::string text = long_lines();
  write_text(folder / "in", text);
  CaptureOptions options = to_d();
  options.atomic = true;
  const auto work = [&](const std::string& root) {
    const Descriptor fd(::open((folder / "in").c_str(), O_RDONLY));
    ingest_pipe(*Spool::open(root), fd.get(), options);
  };
  std::vector<std::string> points;
  {
    TempFolder root;
    points = fault_points_of([&] { work(root.path()); });
  }
  for (size_t i = 0; i < points.size(); ++i) {
    TempFolder root;
    run_killed_at(i, i % 2 == 0 ? Crash::power : Crash::process, [&] { work(root.path()); });
    Spool::open(root.path());
    const std::string taken = spooled(root.path());
    ASSERT_TRUE(taken.empty() || taken == text) << i << ": " << points[i];
  }
}

}  // namespace
}  // namespace firn::hyp
