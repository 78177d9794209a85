# The images of ForgeQueue. Build one from the top of the repository:
#
#   docker build --build-arg PROGRAM=core -t forgequeue/core .
#
# PROGRAM is core, gateway or forgequeue: the command line with the sample worker, the bridge and the load generator.
#
# The base images are named by whole version tags, so that a build works wherever
# they can be had, mirrors and stand-ins among them. What a published image was made
# from, to the digest, is in its provenance. Dependabot raises the tags
# (.github/dependabot.yml), and their digests too once they are written here.
#
# Each module is built by itself (GOWORK=off), as .ci/run proves that it can be; in the commit of a release with the
# other modules as published. Where all three are built
# at once they take turns (sharing=locked), and what one has compiled the next one finds.
ARG PROGRAM

FROM --platform=$BUILDPLATFORM golang:1.26.8-bookworm AS build
ENV CGO_ENABLED=0 GOWORK=off GOFLAGS=-buildvcs=false
WORKDIR /src
# The modules alone: see .dockerignore.
COPY . .
# grpcnotrace: the export of spans brings gRPC's types along, and these a page of templates, which makes the linker keep
# every method of every type: 17 MB. It helps core alone: the other two have templates of their own.
# nomsgpack: gin without an encoding that is not used. full: NATS, Kafka and the export of spans, which make run leaves
# out to be quick.
ARG PROGRAM TARGETOS TARGETARCH VERSION=dev REVISION=
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build,sharing=locked \
    case "$PROGRAM" in \
    core) module=core tags=grpcnotrace mains=./cmd/core ;; \
    gateway) module=gateway tags=nomsgpack mains=./cmd/gateway ;; \
    forgequeue) module=cmd tags=nomsgpack,full mains="./forgequeue ./forgequeue/forgequeue-bench ./forgequeue/forgequeue-bridge" ;; \
    *) echo "PROGRAM is '$PROGRAM': it has to be core, gateway or forgequeue" >&2; exit 1 ;; \
    esac; \
    GOOS=$TARGETOS GOARCH=$TARGETARCH go -C $module build -trimpath -tags $tags -pgo=/src/cmd/forgequeue/default.pgo \
      -ldflags="-s -w -X github.com/forgequeue/forgequeue/shared/server/build.version=$VERSION -X github.com/forgequeue/forgequeue/shared/server/build.revision=$REVISION" \
      -o /out/ $mains

FROM gcr.io/distroless/static-debian13:nonroot AS base
ARG PROGRAM VERSION=dev REVISION=
LABEL org.opencontainers.image.title="ForgeQueue $PROGRAM" \
      org.opencontainers.image.source="https://github.com/forgequeue/forgequeue" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=build /out/ /usr/local/bin/
# A number, so that an orchestrator can see that it is not root.
USER 65532:65532
STOPSIGNAL SIGTERM

FROM base AS core
LABEL org.opencontainers.image.description="the engine: it stores jobs, leases them, retries and dead-letters them"
# Within a container its own loopback would be of no use to a gateway.
ENV FORGEQUEUE_CORE_LISTEN=0.0.0.0:8081
EXPOSE 8081
HEALTHCHECK --interval=5s --timeout=4s --start-period=30s --retries=3 \
  CMD ["/usr/local/bin/core", "health"]
ENTRYPOINT ["/usr/local/bin/core"]
CMD ["serve"]

FROM base AS gateway
LABEL org.opencontainers.image.description="the public API: it knows who calls, and forwards the work"
# Within a container its own loopback would be of no use to anybody.
ENV FORGEQUEUE_LISTEN=0.0.0.0:8080
EXPOSE 8080
HEALTHCHECK --interval=5s --timeout=4s --start-period=30s --retries=3 \
  CMD ["/usr/local/bin/gateway", "health"]
ENTRYPOINT ["/usr/local/bin/gateway"]
CMD ["serve"]

FROM base AS forgequeue
LABEL org.opencontainers.image.description="the command line and the sample worker"
# Of a worker; the other commands end before it is asked.
HEALTHCHECK --interval=5s --timeout=4s --start-period=30s --retries=3 \
  CMD ["/usr/local/bin/forgequeue", "worker", "health"]
ENTRYPOINT ["/usr/local/bin/forgequeue"]
CMD ["worker", "sample"]

FROM ${PROGRAM}
