# The image of the node agent, without the server: docker build -f deploy/agent.Dockerfile -t allotment-agent .
#
# Packages are pinned with hashes (make lock); the base image is chosen as for the server's image. NVIDIA's library is
# not part of it: the container runtime mounts the one that belongs to the node's driver.
ARG BASE=python:3.13-slim

FROM ${BASE} AS build
WORKDIR /source
COPY deploy/requirements-build.txt deploy/requirements-build.txt
RUN pip install --no-cache-dir --require-hashes --requirement deploy/requirements-build.txt
COPY . .
RUN python -m build --wheel --no-isolation --outdir /wheels

FROM ${BASE}
ENV PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
RUN --mount=from=build,source=/source/deploy,target=/deploy \
    pip install --no-cache-dir --require-hashes --requirement /deploy/requirements-agent.txt
RUN --mount=from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-deps /wheels/*.whl
# Writing to files of containers requires root on the node; see deploy/kubernetes/node-agent.yaml.
EXPOSE 9401
CMD ["allotment-agent"]
