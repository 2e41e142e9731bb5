#include "orca/graph.h"

#include <algorithm>

namespace firn::orca {
namespace {

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::vector<std::string> dataset_lines(const StepDefinition& step) {
  std::vector<std::string> lines;
  for (const std::string& name : step.datasets.reads) lines.push_back("reads " + name);
  for (const std::string& name : step.datasets.writes) lines.push_back("writes " + name);
  for (const std::string& name : step.datasets.replaces) lines.push_back("replaces " + name);
  return lines;
}

// How many steps stand before it on the longest way.
std::vector<size_t> depths_of(const RunPlan& plan) {
  std::vector<size_t> depths(plan.steps.size(), 0);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    for (const StepEdge& edge : plan.steps[i].after) depths[i] = std::max(depths[i], depths[edge.step] + 1);
  }
  return depths;
}

// Whether the i-th step takes an input over its edge number `edge`.
bool carries_input(const Pipeline& pipeline, size_t step, size_t edge) {
  const std::vector<size_t>& inputs = pipeline.inputs[step];
  return std::find(inputs.begin(), inputs.end(), edge) != inputs.end();
}

struct Box {
  double x = 0, y = 0, width = 0, height = 0;
};

}  // namespace

std::string graph_text(const Pipeline& pipeline) {
  std::string text = pipeline.name;
  if (!pipeline.description.empty()) text += ": " + pipeline.description;
  if (pipeline.schedule) text += fmt::format("  (schedule {})", pipeline.schedule->text());
  text += "\n";
  const std::vector<size_t> depths = depths_of(pipeline.plan);
  for (size_t i = 0; i < pipeline.order.size(); ++i) {
    const StepDefinition& step = *pipeline.order[i];
    const StepPlan& plan = pipeline.plan.steps[i];
    text += std::string(2 + 2 * depths[i], ' ') + step.name;
    if (step.mapped) text += " [" + step.key_name + "]";
    std::vector<std::string> from, after;
    for (size_t edge = 0; edge < plan.after.size(); ++edge) {
      const std::string& before = pipeline.order[plan.after[edge].step]->name;
      (carries_input(pipeline, i, edge) ? from : after)
          .push_back(before + (plan.after[edge].aligned ? " of the same key" : ""));
    }
    if (!from.empty()) text += " <- " + joined(from, ", ");
    if (!after.empty()) text += " after " + joined(after, ", ");
    const std::vector<std::string> datasets = dataset_lines(step);
    if (!datasets.empty()) text += "  (" + joined(datasets, ", ") + ")";
    text += "\n";
  }
  return text;
}

std::string graph_svg(const Pipeline& pipeline) {
  constexpr double kMargin = 24, kGapX = 64, kGapY = 24, kLine = 16, kCharacter = 7.3, kPadding = 12;
  const std::vector<size_t> depths = depths_of(pipeline.plan);
  const size_t columns = 1 + *std::max_element(depths.begin(), depths.end());
  std::vector<std::vector<std::string>> lines;
  std::vector<Box> boxes(pipeline.order.size());
  std::vector<double> widths(columns, 0), bottoms(columns, kMargin + 28);
  for (size_t i = 0; i < pipeline.order.size(); ++i) {
    const StepDefinition& step = *pipeline.order[i];
    std::vector<std::string>& text = lines.emplace_back();
    text.push_back(step.name + (step.mapped ? " [" + step.key_name + "]" : ""));
    for (std::string& line : dataset_lines(step)) text.push_back(std::move(line));
    for (const std::string& line : text) {
      boxes[i].width = std::max(boxes[i].width, static_cast<double>(line.size()) * kCharacter + 2 * kPadding);
    }
    boxes[i].height = static_cast<double>(text.size()) * kLine + 2 * kPadding - 4;
    widths[depths[i]] = std::max(widths[depths[i]], boxes[i].width);
  }
  std::vector<double> lefts(columns, kMargin);
  for (size_t column = 1; column < columns; ++column) lefts[column] = lefts[column - 1] + widths[column - 1] + kGapX;
  for (size_t i = 0; i < boxes.size(); ++i) {
    Box& box = boxes[i];
    box.x = lefts[depths[i]];
    box.y = bottoms[depths[i]];
    box.width = widths[depths[i]];
    bottoms[depths[i]] += box.height + kGapY;
  }
  const double width = lefts.back() + widths.back() + kMargin;
  const double height = *std::max_element(bottoms.begin(), bottoms.end());
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "font-family=\"ui-monospace, monospace\" font-size=\"12\">\n"
      "<defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
      "orient=\"auto\">"
      "<path d=\"M0 0 L8 4 L0 8 z\" fill=\"#57606a\"/></marker></defs>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"{2:.0f}\" y=\"30\" font-size=\"14\" font-weight=\"bold\">{3}</text>\n",
      width, height, kMargin, escaped(pipeline.name + (pipeline.schedule ? "  " + pipeline.schedule->text() : "")));
  for (size_t i = 0; i < boxes.size(); ++i) {
    const StepPlan& plan = pipeline.plan.steps[i];
    for (size_t edge = 0; edge < plan.after.size(); ++edge) {
      const Box& from = boxes[plan.after[edge].step];
      const double x1 = from.x + from.width, y1 = from.y + from.height / 2;
      const double x2 = boxes[i].x, y2 = boxes[i].y + boxes[i].height / 2, bend = std::max(24.0, (x2 - x1) / 2);
      svg += fmt::format(
          "<path d=\"M{:.1f} {:.1f} C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\" fill=\"none\" stroke=\"#57606a\"{} "
          "marker-end=\"url(#end)\"/>\n",
          x1, y1, x1 + bend, y1, x2 - bend, y2, x2, y2,
          carries_input(pipeline, i, edge) ? "" : " stroke-dasharray=\"5 4\"");
    }
  }
  for (size_t i = 0; i < boxes.size(); ++i) {
    const Box& box = boxes[i];
    for (int copy = pipeline.order[i]->mapped ? 2 : 0; copy >= 0; --copy) {  // a mapped step is a pile of cards
      svg += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"6\" fill=\"#f6f8fa\" "
          "stroke=\"#57606a\"/>\n",
          box.x + copy * 4, box.y + copy * 4, box.width, box.height);
    }
    for (size_t line = 0; line < lines[i].size(); ++line) {
      svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", box.x + kPadding,
                         box.y + kPadding + 8 + static_cast<double>(line) * kLine,
                         line == 0 ? " font-weight=\"bold\"" : " fill=\"#57606a\"", escaped(lines[i][line]));
    }
  }
  return svg + "</svg>\n";
}

}  // namespace firn::orca
