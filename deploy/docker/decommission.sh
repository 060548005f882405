#!/usr/bin/env bash
# What Kubernetes runs in an executor's pod before it ends the pod, as Spark asks it to (/opt/decom.sh): the executor gives
# its tasks back, and ends when they have ended elsewhere. Kubernetes ends what is left after the pod's grace period.
set -u
class=org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend
for process in /proc/[0-9]*; do
  command=$(tr '\0' ' ' 2> /dev/null < "$process/cmdline") || continue
  case "$command" in
    *" $class "*" --podName $SPARK_EXECUTOR_POD_NAME "*) ;;
    *) continue ;;
  esac
  kill -s PWR "${process#/proc/}" || continue
  # A process that has ended but that nobody has waited for has no arguments.
  while [ -n "$(tr -d '\0' 2> /dev/null < "$process/cmdline")" ]; do
    sleep 0.1
  done
done
