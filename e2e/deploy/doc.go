// Package deploy holds what users deploy to its rules: docker-compose.yml, the
// manifests for Kubernetes, the Dockerfile and GitHub's workflows. They are read,
// not run: .ci/compose-smoke runs Compose where there is a Docker engine.
package deploy
