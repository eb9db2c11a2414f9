#!/usr/bin/env node
// Plain JavaScript, and nothing imported before the check: an older Node would fail on the TypeScript behind it, or deep
// inside a dependency, with a message that does not say why.
const REQUIRED = 24;
const major = Number(process.versions.node.split('.')[0]);
if (major < REQUIRED) {
  process.stderr.write(
    `levelhook needs Node ${REQUIRED} or later and this is ${process.versions.node}: run it through its npm scripts, which bring their own Node.\n`,
  );
  process.exit(1);
}
// Modules that were compiled once load in half of the time. Where its folder (NODE_COMPILE_CACHE, or one in the system's
// folder for temporary files) cannot be written, nothing is kept.
const { enableCompileCache } = await import('node:module');
enableCompileCache();
// Half of these threads look up names, and no tenant's may take them all. They start when they are needed first.
process.env['UV_THREADPOOL_SIZE'] ??= '64';
const { keepMemorySmall } = await import('../memory/index.ts');
keepMemorySmall();
const { main } = await import('./main.ts');
await main(process.argv);
