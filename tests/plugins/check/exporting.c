/* A function that other libraries would see. */
int a_helper_of_the_plugin(void);
int a_helper_of_the_plugin(void) { return 1; }
