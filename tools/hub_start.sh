# What a person's server does: pull the course, then open its lessons.
cd
gitpuller "$COURSE_REPOSITORY" "$COURSE_BRANCH" torch-compile-course
cd torch-compile-course || exit
export TORCHINDUCTOR_CACHE_DIR=$HOME/.cache/inductor
exec python -m tools.lab "$@"
