/* A controller behind a pipe: drive.py plays the environment and tells what the controller sees and earns.
 *
 *     neol export runs/lander --to c --name controller --out controller.h
 *     cc -std=c99 -O2 pipe.c -lm -o pipe
 *     python drive.py ./pipe --network runs/lander --episodes 100
 *
 * In:  rows of 2 + CONTROLLER_INPUTS doubles: what happens (0 a life begins, 1 it goes on, 2 the episode is over), the
 *      reward of the last action, the observation.
 * Out: CONTROLLER_ACTIONS doubles for each row but those that end an episode.
 * With -DREAL=float the header must be exported with --precision float.
 */
#include <stdio.h>

#include "controller.h"

#ifndef REAL
#define REAL double
#endif

int main(void) {
    controller_state state;
    double row[2 + CONTROLLER_INPUTS], answer[CONTROLLER_ACTIONS];
    REAL observation[CONTROLLER_INPUTS], action[CONTROLLER_ACTIONS];
    while (fread(row, sizeof row, 1, stdin) == 1) {
        const REAL reward = (REAL)row[1];
        if (row[0] > 1.5) {
            controller_end(&state, reward);
            continue;
        }
        if (row[0] < 0.5) {
            controller_init(&state);
        }
        for (int i = 0; i < CONTROLLER_INPUTS; i++) {
            observation[i] = (REAL)row[2 + i];
        }
        controller_step(&state, observation, reward, action);
        for (int a = 0; a < CONTROLLER_ACTIONS; a++) {
            answer[a] = action[a];
        }
        if (fwrite(answer, sizeof answer, 1, stdout) != 1 || fflush(stdout) != 0) {
            return 1;
        }
    }
    return 0;
}
