# The gateway. Build it from the repository's root:
#   docker build -f infra/images/gateway.Dockerfile -t levelhook/gateway:0.1.0 .
# Other base images, such as those of a mirror, need node 24 and, for the first, npm.
ARG BUILD_IMAGE=docker.io/library/node:24-bookworm-slim
ARG RUN_IMAGE=gcr.io/distroless/nodejs24-debian12:nonroot

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY package.json package-lock.json LICENSE CHANGELOG.md ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json ./
COPY infra/checks infra/checks
COPY infra/images infra/images
COPY src src
COPY functions functions
# Only what runs: no declarations of types, no functions, and not the package of the SDK.
RUN node infra/checks/build.ts /out/dist && rm -r /out/dist/functions /out/dist/function && find /out/dist -name '*.d.ts' -exec rm {} +
# OpenTelemetry's packages are optional peers, which are pruned with the development dependencies, but for the one that
# prom-client needs.
RUN mv node_modules/@opentelemetry /out/ && npm prune --omit=dev --no-audit --no-fund && rm -rf node_modules/@opentelemetry && mv /out/@opentelemetry node_modules/
RUN node infra/images/write-installed-bill.ts /out/sbom.cdx.json
RUN mv node_modules package.json LICENSE /out/

FROM ${RUN_IMAGE}
COPY --from=build /out /app
WORKDIR /app
ENV NODE_ENV=production
# Distroless' nonroot, by number, so that a kubelet can check runAsNonRoot.
USER 65532:65532
EXPOSE 8787
# Probes: /livez and /readyz of the port. There is no HEALTHCHECK, since Kubernetes ignores it.
ENTRYPOINT ["/nodejs/bin/node", "dist/src/cli/levelhook.js"]
CMD ["gateway"]
