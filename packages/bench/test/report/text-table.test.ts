import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { caseTable } from "../../src/report/text-table.ts";
import { TWO_PATHS, caseResult, sample } from "../sample-results.ts";

describe("caseTable", () => {
  it("has a row for each path, and beside each figure its ratio", () => {
    assert.equal(
      caseTable(caseResult(TWO_PATHS)),
      `\
Bulk download · median of 3 rounds
                       rate, MiB/s   ratio   CPU, s/GiB   ratio   failed
  Node TLS relay             1,000   1.00x            2   1.00x        0
  Reachback, CONNECT           816   0.90x         2.50   1.25x        0
  ratio: to Node TLS relay, of the same round
`,
    );
  });

  it("leaves out columns that nobody has a figure for, and ratios without a reference", () => {
    const rows = [
      { id: "direct", title: "direct TCP", samples: [sample({ rate: 3_000 })], failures: [] },
    ] as const;
    assert.equal(
      caseTable(caseResult(rows)),
      `\
Bulk download · 1 round
               rate, MiB/s
  direct TCP         3,000
`,
    );
  });

  it("says what failed, what was skipped and what is to be known", () => {
    const remarked = { ...sample({ rate: 1 }), remark: "2 failed; the first: refused" };
    const table = caseTable(
      caseResult(
        [
          { id: "relay", title: "relay", samples: [undefined, remarked], failures: ["lost"] },
          { id: "peer", title: "peer", samples: [], failures: [] },
        ],
        {
          unavailable: [
            { id: "openssh", reason: "no sshd", isFailure: false },
            { id: "reachback", reason: "exit code 1", isFailure: true },
          ],
        },
      ),
    );
    assert.match(table, /^ {2}relay: failed 1x: lost$/m);
    assert.match(table, /^ {2}relay: 2 failed; the first: refused$/m);
    assert.match(table, /^ {2}OpenSSH -L: skipped: no sshd$/m);
    assert.match(table, /^ {2}Reachback, CONNECT: did not start: exit code 1$/m);
    assert.match(table, /^ {2}peer +–/m);
  });
});
