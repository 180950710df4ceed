/** Which package may know which. Layering: common <- server | agent | client <- cli, bench, test. */
module.exports = {
  forbidden: [
    { name: "no-cycles", severity: "error", from: {}, to: { circular: true } },
    {
      name: "common-imports-nothing-of-ours",
      severity: "error",
      from: { path: "^packages/common/src/" },
      to: { path: "^packages/", pathNot: "^packages/common/src/" },
    },
    {
      name: "server-agent-and-client-are-strangers",
      severity: "error",
      from: { path: "^packages/(server|agent|client)/src/" },
      to: { path: "^packages/", pathNot: "^packages/($1|common)/src/" },
    },
    {
      name: "programs-are-started-not-imported",
      comment: "cli and bench run the real executables; they may use the client library.",
      severity: "error",
      from: { path: "^packages/(cli|bench)/src/" },
      to: { path: "^packages/(server|agent)/src/" },
    },
    {
      name: "demo-stays-apart",
      comment: "A test double: it may use what an apiserver would, and no product may use it.",
      severity: "error",
      from: { path: "^packages/" },
      to: { path: "^demo/" },
    },
    {
      name: "demo-uses-client-and-common",
      severity: "error",
      from: { path: "^demo/src/" },
      to: { path: "^packages/", pathNot: "^packages/(client|common)/src/" },
    },
    {
      name: "src-never-imports-test",
      severity: "error",
      from: { path: "/src/" },
      to: { path: "^test/|/test/|\\.test\\.ts$" },
    },
    {
      name: "testing-helpers-stay-out-of-products",
      severity: "error",
      from: { path: "^packages/[^/]+/src/", pathNot: "/src/testing/" },
      to: { path: "/src/testing/" },
    },
  ],
  options: {
    tsConfig: { fileName: "tsconfig.json" },
    tsPreCompilationDeps: true,
    doNotFollow: { path: "node_modules" },
    exclude: { path: "/dist/" },
    enhancedResolveOptions: {
      conditionNames: ["@reachback/source", "import", "default"],
      exportsFields: ["exports"],
    },
  },
};
