# The consumers' images: `slim` runs all of them but the trainer and the demo's generator, `full` has torch as well.
#
#   docker build --target slim --tag tamis:0.1.0-slim .        (make images builds both)
#   docker run --rm tamis:0.1.0-slim tamis --help
#
# They run as user 10001, on a read-only root file system if /tmp is writable and, for trainer and generators, /data.
# PYTHON_IMAGE, SOURCE and REVISION are build arguments: another base, and where the code came from (labels).
# Plugins and configurations are found in /config. Versions are pinned, with hashes, in deploy/images/*.lock.
ARG PYTHON_IMAGE=python:3.11.14-slim

FROM ${PYTHON_IMAGE} AS base
ARG VERSION=0.1.0
RUN groupadd --gid 10001 tamis \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin tamis \
 && mkdir /data /config \
 && chown tamis:tamis /data
ENV PATH=/venv/bin:$PATH \
    PYTHONPATH=/app:/config \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    TAMIS_DATA_DIR=/data \
    TAMIS_STATE=/tmp/tamis \
    TAMIS_HEARTBEAT=/tmp/alive
LABEL org.opencontainers.image.title="Tamis" \
      org.opencontainers.image.description="An event-sourced rollout pipeline for RL post-training" \
      org.opencontainers.image.version="${VERSION}"
WORKDIR /app
# The check reads what the consumer's loop says of itself; one-shot commands switch it off (--no-healthcheck).
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 \
  CMD ["python", "-S", "/app/pipeline/health.py"]
CMD ["tamis", "--help"]

FROM base AS packages
COPY deploy/images/slim.lock /tmp/
RUN python -m venv /venv \
 && pip install --quiet --no-cache-dir --only-binary :all: --require-hashes --requirement /tmp/slim.lock

FROM packages AS slim-packages
RUN pip uninstall --quiet --yes setuptools pip

FROM packages AS full-packages
COPY deploy/images/full.lock /tmp/
RUN pip install --quiet --no-cache-dir --only-binary :all: --require-hashes --requirement /tmp/full.lock \
 && pip uninstall --quiet --yes pip

FROM base AS app
COPY pipeline /app/pipeline
COPY consumers /app/consumers
COPY schemas /app/schemas
COPY examples /app/examples
COPY deploy/images/tamis /usr/local/bin/tamis
RUN python -m compileall -q /app

FROM base AS slim
COPY --from=slim-packages /venv /venv
COPY --from=app /usr/local/bin/tamis /usr/local/bin/tamis
COPY --from=app /app /app
ARG SOURCE=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.revision="${REVISION}"
USER 10001:10001

FROM base AS full
COPY --from=full-packages /venv /venv
COPY --from=app /usr/local/bin/tamis /usr/local/bin/tamis
COPY --from=app /app /app
ARG SOURCE=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.revision="${REVISION}"
USER 10001:10001
