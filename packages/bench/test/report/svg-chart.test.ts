import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { svgChart } from "../../src/report/svg-chart.ts";
import { TWO_PATHS, caseResult } from "../sample-results.ts";

function barWidths(svg: string): number[] {
  return [...svg.matchAll(/<rect [^>]*width="(\d+)"/g)].map(([, width]) => Number(width));
}

describe("svgChart", () => {
  it("draws a bar for each figure that is compared, as long as it is large", () => {
    const [relayRate, ourRate, relayCpu, ourCpu, ...more] = barWidths(
      svgChart([caseResult(TWO_PATHS)], "caption"),
    );
    assert.deepEqual(more, []);
    assert.ok(Math.abs(ourRate! / relayRate! - 0.816) < 0.01);
    assert.ok(Math.abs(relayCpu! / ourCpu! - 0.8) < 0.01);
  });

  it("writes figure, unit and ratio beside the bar", () => {
    const svg = svgChart([caseResult(TWO_PATHS)], "caption");
    assert.match(svg, />816 MiB\/s · 0\.90x</);
    assert.match(svg, />2\.50 s\/GiB · 1\.25x</);
  });

  it("is as high as its cases need", () => {
    const heightOf = (svg: string) => Number(/height="(\d+)"/.exec(svg)?.[1]);
    const one = heightOf(svgChart([caseResult(TWO_PATHS)], ""));
    const two = heightOf(svgChart([caseResult(TWO_PATHS), caseResult(TWO_PATHS)], ""));
    assert.ok(two > one);
  });

  it("keeps text from becoming markup", () => {
    const svg = svgChart([caseResult(TWO_PATHS, { title: "<b> & co" })], "a < b");
    assert.match(svg, />&lt;b&gt; &amp; co</);
    assert.match(svg, /<title>a &lt; b<\/title>/);
  });
});
