// SPDX-License-Identifier: Apache-2.0
#include "measure/report/report.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/error.h"
#include "base/file.h"

namespace clover {
namespace {

// What one origin has, merged where figures may stand in one table.
struct ReportChapter {
  ResultOrigin origin;
  std::vector<DecodeResult> decodes;
  std::vector<KernelResult> kernels;
  std::vector<std::vector<EvalResult>> evals;
  std::vector<ComparisonResult> comparisons;
};

// Some files don't name the instruction set, and the names of models depend on who writes them;
// their hashes don't.
bool same_origin(const ResultOrigin& a, const ResultOrigin& b) {
  return a.cpu == b.cpu && a.threads == b.threads && a.sha256 == b.sha256 && a.commit == b.commit &&
         (a.isa == b.isa || a.isa.empty() || b.isa.empty());
}

void refuse_twice(const std::string& first, const std::string& second, const std::string& what) {
  fail(ErrorCode::kInvalidArgument,
       "{} and {} both hold {} with the same settings; give one of them only", first, second, what);
}

bool only_plain(const DecodeResult& result) {
  return std::all_of(result.rows.begin(), result.rows.end(),
                     [](const DecodeRow& row) { return row.method == "none"; });
}

void add(ReportChapter& chapter, const DecodeResult& result) {
  for (DecodeResult& other : chapter.decodes) {
    if (other.settings != result.settings) continue;
    bool both_plain = false;  // each run has its own none, which its methods stand beside
    for (const DecodeRow& row : result.rows) {
      if (find_row(other, row.method, row.batch, row.category) == nullptr) continue;
      both_plain = true;
      if (row.method != "none" || only_plain(result))
        refuse_twice(other.files.front(), result.files.front(),
                     fmt::format("method {}, batch {}", row.method, row.batch));
    }
    if (both_plain) continue;
    other.rows.insert(other.rows.end(), result.rows.begin(), result.rows.end());
    other.files.insert(other.files.end(), result.files.begin(), result.files.end());
    return;
  }
  for (const DecodeRow& row : result.rows)
    if (find_row(result, row.method, row.batch, row.category) != &row)
      refuse_twice(result.files.front(), "itself",
                   fmt::format("method {}, batch {}", row.method, row.batch));
  chapter.decodes.push_back(result);
}

void add(ReportChapter& chapter, const EvalResult& result) {
  for (std::vector<EvalResult>& group : chapter.evals) {
    if (group.front().settings != result.settings) continue;
    for (const EvalResult& other : group)
      if (other.speculator == result.speculator)
        refuse_twice(other.file, result.file, "an eval of " + result.speculator);
    group.push_back(result);
    return;
  }
  chapter.evals.push_back({result});
}

void add(ReportChapter& chapter, const KernelResult& result) { chapter.kernels.push_back(result); }
void add(ReportChapter& chapter, const ComparisonResult& result) {
  chapter.comparisons.push_back(result);
}

void add(std::vector<TrainingResult>& runs, const TrainingResult& run) {
  for (const TrainingResult& other : runs)
    if (other.name == run.name)
      refuse_twice(other.file, run.file, "a training run called " + run.name);
  runs.push_back(run);
}

std::string origin_text(const ResultOrigin& origin) {
  return fmt::format(
      "{} on {}, {} {}{}, commit {}", markdown_text(origin.model), markdown_text(origin.cpu),
      origin.threads, origin.threads == 1 ? "thread" : "threads",
      origin.isa.empty() ? "" : ", " + markdown_text(origin.isa), markdown_text(origin.commit));
}

void add_chapter(ReportPage& page, const ReportChapter& chapter,
                 const std::vector<ScaleDevice>& devices) {
  page.heading(2, origin_text(chapter.origin));
  page.paragraph(fmt::format("Model SHA-256 {}.", markdown_text(chapter.origin.sha256)));
  for (const ComparisonResult& result : chapter.comparisons) add_section(page, result);
  for (const DecodeResult& result : chapter.decodes) add_section(page, result);
  for (const KernelResult& result : chapter.kernels) add_section(page, result);
  for (const std::vector<EvalResult>& results : chapter.evals) add_section(page, results);
  const auto found = std::find_if(
      chapter.evals.begin(), chapter.evals.end(),
      [](const std::vector<EvalResult>& results) { return results.front().temperature == 0; });
  const std::vector<EvalResult> greedy =
      found == chapter.evals.end() ? std::vector<EvalResult>{} : *found;
  add_paper_section(page, chapter.decodes, chapter.kernels, greedy);
  for (const KernelResult& kernels : chapter.kernels)
    add_scale_section(page, kernels, chapter.decodes, greedy, devices);
}

}  // namespace

ReportPage make_report(const std::vector<ResultFile>& results, const ReportOptions& options) {
  if (results.empty()) fail(ErrorCode::kInvalidArgument, "there is no result to report");
  std::vector<ReportChapter> chapters;
  std::vector<TrainingResult> runs;
  for (const ResultFile& result : results) {
    if (const auto* run = std::get_if<TrainingResult>(&result.content)) {
      add(runs, *run);
      continue;
    }
    auto chapter = std::find_if(chapters.begin(), chapters.end(), [&](const ReportChapter& c) {
      return same_origin(c.origin, result.origin);
    });
    if (chapter == chapters.end()) {
      chapters.emplace_back().origin = result.origin;
      chapter = std::prev(chapters.end());
    }
    if (chapter->origin.isa.empty()) chapter->origin.isa = result.origin.isa;
    std::visit(
        [&](const auto& content) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(content)>, TrainingResult>)
            add(*chapter, content);
        },
        result.content);
  }
  ReportPage page;
  page.heading(1, "Measurements");
  page.paragraph(
      "Medians of repeated runs, with the least and the most in brackets. A ratio whose runs lie "
      "on "
      "both sides of 1 is inside the noise: it is marked ≈ and is no difference.");
  for (const std::string& note : options.notes) page.paragraph(markdown_text(note));
  if (chapters.size() > 1) {
    std::string list;
    for (const ReportChapter& chapter : chapters) list += "\n- " + origin_text(chapter.origin);
    page.paragraph(fmt::format(
        "**The results have {} origins.** Each has a chapter of its own; no table or plot holds "
        "figures of two:\n{}",
        chapters.size(), list));
  }
  for (const ReportChapter& chapter : chapters) add_chapter(page, chapter, options.devices);
  if (!runs.empty()) add_section(page, runs);
  page.paragraph(fmt::format("Made by `clover report` from {} result {}.", results.size(),
                             results.size() == 1 ? "file" : "files"));
  return page;
}

std::vector<ResultFile> read_results(const std::vector<std::string>& paths) {
  std::vector<ResultFile> results;
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) {
      files.push_back(path);
      continue;
    }
    if (std::filesystem::exists(std::filesystem::path(path) / "log.jsonl", error)) {
      results.push_back({{}, read_training(path)});
      continue;
    }
    const std::vector<std::string> inside = files_in_folder(path, ".json");
    if (inside.empty()) fail(ErrorCode::kNotFound, "the folder {} holds no result (*.json)", path);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  for (const std::string& file : files) results.push_back(read_result(file));
  return results;
}

}  // namespace clover
