# A function of this repository in one file. Build it from the repository's root:
#   docker build -f infra/images/function.Dockerfile --build-arg FUNCTION=examples/01-minimal -t greeting:0.1.0 .
# Other base images, such as those of a mirror, need node 24 and, for the first, npm.
ARG BUILD_IMAGE=docker.io/library/node:24-bookworm-slim
ARG RUN_IMAGE=gcr.io/distroless/nodejs24-debian12:nonroot

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY package.json package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY tsconfig.json ./
COPY infra/images infra/images
COPY src src
COPY functions functions
# The folder below functions/ whose node.ts serves the controller.
ARG FUNCTION
RUN node infra/images/bundle-function.ts "functions/${FUNCTION}/node.ts" /out

FROM ${RUN_IMAGE}
COPY --from=build /out /app
WORKDIR /app
ENV NODE_ENV=production HOST=0.0.0.0 PORT=8080
USER 65532:65532
EXPOSE 8080
# A function answers signed requests only: probe the port by TCP.
ENTRYPOINT ["/nodejs/bin/node", "function.mjs"]
# Node's image of distroless has a command of its own.
CMD []
