import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BrowserContext, chromium } from 'playwright-core';

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

/** For what hangs, as that of `eventually`. */
const LIMIT_MS = 60_000;

/** The Chromium of CHROMIUM_PATH, else Debian's, with nothing in it from before. */
export async function openBrowser(): Promise<{ context: BrowserContext; close: () => Promise<void> }> {
  const profile = mkdtempSync(join(tmpdir(), 'levelhook-chromium-'));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: findChromium(),
    args: FLAGS,
    viewport: { width: 1280, height: 800 },
    timeout: LIMIT_MS,
  });
  context.setDefaultTimeout(LIMIT_MS);
  return {
    context,
    close: async () => {
      await context.close();
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    },
  };
}

/** CHROMIUM_PATH, else Debian's. Like Redis it is installed when missing, where that is permitted. */
function findChromium(): string {
  const path = process.env['CHROMIUM_PATH'] || '/usr/bin/chromium';
  if (existsSync(path)) return path;
  if (process.getuid?.() !== 0 || !existsSync('/usr/bin/apt-get')) {
    throw new Error('The dashboard is tested in Chromium: install it, or set CHROMIUM_PATH.');
  }
  execFileSync('apt-get', ['update', '-qq']);
  execFileSync('apt-get', ['install', '-y', '-qq', '--no-install-recommends', 'chromium'], {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
  });
  return path;
}
