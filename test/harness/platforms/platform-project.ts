import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { build, type BuildOptions } from 'esbuild';
import { parse } from 'yaml';
import { z } from 'zod';
import { packagePath } from '../../../src/testing/package-root.ts';

const EXAMPLE = 'functions/examples/20-platforms';
const packageSchema = z.object({ dependencies: z.record(z.string(), z.string()) });

/** A bundle, as a platform gets it. */
export interface Bundle {
  readonly path: string;
  readonly bytes: number;
}

/** A copy of the platforms' example beside the package `@levelhook/function`, as `npm install` would leave both. */
export class PlatformProject {
  readonly root: string;

  /**
   * @param folder an empty one
   * @param modules the `node_modules` of another project. Default: the package is built and installed
   */
  constructor(folder: string, modules?: string) {
    this.root = join(folder, 'project');
    cpSync(packagePath(EXAMPLE), this.root, { recursive: true });
    if (modules === undefined) this.#install(join(folder, 'dist'));
    else symlinkSync(modules, this.path('node_modules'));
  }

  /**
   * The same project with another controller.
   * @param folder an empty one
   * @param module exports its controller as `copies`
   */
  with(folder: string, module: string): PlatformProject {
    const project = new PlatformProject(folder, this.path('node_modules'));
    cpSync(packagePath(module), project.path('copies.ts'));
    return project;
  }

  #install(built: string): void {
    execFileSync(process.execPath, [packagePath('infra/checks/build.ts'), built]);
    const modules = this.path('node_modules');
    mkdirSync(join(modules, '@levelhook'), { recursive: true });
    renameSync(join(built, 'function'), join(modules, '@levelhook/function'));
    const { dependencies } = packageSchema.parse(JSON.parse(readFileSync(this.path('package.json'), 'utf8')));
    // The SDK needs yaml to read a kubeconfig, and rfc6902 to serve webhooks. The example has neither.
    const names = ['hono', 'yaml', 'rfc6902', ...Object.keys(dependencies)];
    for (const name of names.filter((each) => each !== '@levelhook/function')) {
      mkdirSync(dirname(join(modules, name)), { recursive: true });
      symlinkSync(packagePath('node_modules', name), join(modules, name));
    }
  }

  path(...names: string[]): string {
    return join(this.root, ...names);
  }

  /** As `npm run lambda` and SAM do it. */
  bundleForLambda(): Promise<Bundle> {
    return this.#bundle('aws-lambda/handler.ts', 'aws-lambda/build/handler.mjs', {
      platform: 'node',
      target: 'node24',
    });
  }

  /** As wrangler does it, with the main module of its configuration. */
  bundleForWorkers(): Promise<Bundle> {
    const { main } = this.wrangler;
    return this.#bundle(join('cloudflare-workers', main), 'cloudflare-workers/build/worker.js', {
      platform: 'browser',
      target: 'es2024',
      conditions: ['workerd', 'worker', 'browser'],
    });
  }

  /** The configuration of wrangler, whose comments and last commas YAML accepts, too. */
  get wrangler(): {
    main: string;
    compatibility_date: string;
    compatibility_flags: string[];
    vars: Record<string, string>;
  } {
    const text = readFileSync(this.path('cloudflare-workers/wrangler.jsonc'), 'utf8');
    return wranglerSchema.parse(parse(text.replaceAll(/^\s*\/\/.*$/gm, '')));
  }

  /** The function of the SAM template. */
  get lambdaFunction(): z.infer<typeof templateSchema>['Resources']['Copies']['Properties'] {
    // The tags of CloudFormation, such as !Ref, name nothing that is looked at here.
    const text = readFileSync(this.path('aws-lambda/template.yaml'), 'utf8');
    return templateSchema.parse(parse(text, { logLevel: 'silent' })).Resources.Copies.Properties;
  }

  get knativeService(): z.infer<typeof serviceSchema> {
    return serviceSchema.parse(parse(readFileSync(this.path('knative/service.yaml'), 'utf8')));
  }

  async #bundle(entry: string, outfile: string, options: BuildOptions): Promise<Bundle> {
    const { outputFiles } = await build({
      ...options,
      absWorkingDir: this.root,
      entryPoints: [entry],
      outfile,
      bundle: true,
      minify: true,
      format: 'esm',
      write: false,
      logLevel: 'silent',
    });
    const [output] = outputFiles;
    if (!output) throw new Error(`esbuild made nothing of ${entry}`);
    mkdirSync(dirname(output.path), { recursive: true });
    writeFileSync(output.path, output.contents);
    return { path: output.path, bytes: output.contents.byteLength };
  }
}

const wranglerSchema = z.object({
  main: z.string(),
  compatibility_date: z.string(),
  compatibility_flags: z.array(z.string()).default([]),
  vars: z.record(z.string(), z.string()),
});

const templateSchema = z.object({
  Resources: z.object({
    Copies: z.object({
      Properties: z.object({
        CodeUri: z.string(),
        Handler: z.string(),
        Timeout: z.number(),
        ReservedConcurrentExecutions: z.number(),
        FunctionUrlConfig: z.object({ AuthType: z.string() }),
      }),
    }),
  }),
});
const serviceSchema = z.object({
  spec: z.object({
    template: z.object({
      spec: z.object({
        timeoutSeconds: z.number(),
        containerConcurrency: z.number(),
        containers: z.array(z.object({ env: z.array(z.object({ name: z.string() })) })),
      }),
    }),
  }),
});
