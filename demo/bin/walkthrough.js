#!/usr/bin/env node
// Starts the build of this package; its source is src/walkthrough/main.ts.

import "../dist/walkthrough/main.js";
