// The first frames of debugged_nodebug: a main without debug information (this file is compiled with -g0),
// which calls that of flow.cpp.
#undef main
int flow_main();

int main() { return flow_main(); }
