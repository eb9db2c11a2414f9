import { goLibrary, pythonLibrary } from './libraries.ts';
import { json } from './literals.ts';
import { pluralOf } from './plural.ts';
import type { PlainProject, ProjectOptions } from './project-options.ts';
import { goClusterTest, goController, goTest } from './go-texts.ts';
import { pythonClusterTest, pythonController, pythonTest } from './python-texts.ts';

function plainProject(
  { name, kind: { group, kind, own, version } }: ProjectOptions,
  spec: object | undefined,
): PlainProject {
  const apiVersion = group === '' ? version : `${group}/${version}`;
  const root = group === '' ? `/api/${version}` : `/apis/${apiVersion}`;
  const metadata = { namespace: 'default', name: 'hello', ...(own ? {} : { labels: { [name]: 'true' } }) };
  const object = json({ apiVersion, kind, metadata, spec });
  return { name, kind, apiVersion, plural: pluralOf(kind), root, own, object };
}

/**
 * The files of a project in Python or Go that are not those of one in TypeScript.
 * @param spec of the sample.
 */
export function plainFiles(options: ProjectOptions, spec: object | undefined): Map<string, string> {
  const project = plainProject(options, spec);
  const files = new Map<string, string>([
    ['package.json', manifest(options)],
    ['Dockerfile', options.language === 'go' ? GO_DOCKERFILE : PYTHON_DOCKERFILE],
  ]);
  if (options.language === 'go') {
    files.set('go.mod', `module ${options.name}\n\ngo 1.24\n`);
    files.set('main.go', goController(project));
    files.set('main_test.go', goTest(project));
    files.set('cluster_test.go', goClusterTest(project));
    for (const [name, text] of goLibrary()) files.set(`levelhook/${name}`, text);
  } else {
    files.set('function.py', pythonController(project));
    files.set('test_function.py', pythonTest(project));
    files.set('cluster_test.py', pythonClusterTest(project));
    files.set('levelhook.py', pythonLibrary());
  }
  return files;
}

/** The tests in memory, and those on a real apiserver. */
const TESTS = {
  python: ['python3 -m unittest', 'python3 -m unittest cluster_test'],
  go: ['go vet -tags cluster . ./levelhook && go test .', 'go test -count 1 -tags cluster -run Cluster .'],
} as const;

/** For the command `levelhook`, which is a package of npm. */
function manifest(options: ProjectOptions): string {
  const { bringsNode, name, version } = options;
  const [test, clusterTest] = TESTS[options.language === 'go' ? 'go' : 'python'];
  return `${JSON.stringify(
    {
      name,
      version: '0.1.0',
      private: true,
      engines: { node: '>=24' },
      ...(bringsNode ? { allowScripts: { node: true } } : {}),
      scripts: {
        dev: 'levelhook dev',
        test,
        'test:cluster': `levelhook dev --fresh --data .levelhook/test --port 0 --run "${clusterTest}"`,
      },
      devDependencies: { levelhook: `^${version}`, ...(bringsNode ? { node: '^24.21.0' } : {}) },
    },
    null,
    2,
  )}\n`;
}

const PYTHON_DOCKERFILE = `FROM docker.io/library/python:3.13-slim
WORKDIR /app
COPY *.py ./
ENV HOST=0.0.0.0 PORT=8080 PYTHONUNBUFFERED=1
USER 65532:65532
EXPOSE 8080
CMD ["python3", "function.py"]
`;

const GO_DOCKERFILE = `FROM docker.io/library/golang:1.24 AS build
WORKDIR /app
COPY . .
RUN CGO_ENABLED=0 go build -o /function .

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /function /function
ENV HOST=0.0.0.0 PORT=8080
USER 65532:65532
EXPOSE 8080
CMD ["/function"]
`;
