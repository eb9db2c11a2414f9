const operatingSystems: Partial<Record<NodeJS.Platform, string>> = { win32: 'windows' };
const architectures: Partial<Record<NodeJS.Architecture, string>> = { x64: 'amd64', ia32: '386' };

/** This machine in Go's terms, which published archives use too: `linux` and `amd64`. */
export function targetPlatform(): { os: string; arch: string } {
  return {
    os: operatingSystems[process.platform] ?? process.platform,
    arch: architectures[process.arch] ?? process.arch,
  };
}
